#include "schedule/check/check.h"

#include <algorithm>
#include <optional>

#include "schedule/check/check_run.h"
#include "schedule/check/check_shape.h"
#include "schedule/check/check_shorten.h"
#include "schedule/check/check_values.h"
#include "schedule/check_symmetry.h"

namespace r2ccl {
namespace {

// Both placements; the number of messages of one.
Result<std::uint64_t> run_both(const Schedule& schedule, const Geometry& geometry, const Symmetry* symmetry) {
  ContributionSets sets(schedule.header.ranks);
  Result<std::uint64_t> messages = CheckRun(schedule, geometry, sets, false, symmetry).run();
  // all_to_all moves data between blocks and has no in-place form.
  if (!messages || schedule.header.collective == Collective::kAllToAll) return messages;
  return CheckRun(schedule, geometry, sets, true, symmetry).run();
}

Result<std::uint64_t> check_as_it_is(const Schedule& schedule) {
  const Result<Geometry> geometry = shape_of(schedule);
  if (!geometry) return std::unexpected(geometry.error());
  return run_both(schedule, *geometry, nullptr);
}

Schedule first_of(const Schedule& schedule, std::uint32_t ranks) {
  return {schedule.header, {schedule.lanes.begin(), schedule.lanes.begin() + ranks}};
}

// By the ranks that stand for all, if there are any. Nothing if there are none, or if they refuse it: then all ranks say why.
std::optional<std::uint64_t> check_alike(const Schedule& schedule) {
  Result<Geometry> geometry = shape_of(schedule);
  if (!geometry) return std::nullopt;
  const std::optional<Symmetry> symmetry = symmetry_of(schedule, *geometry);
  if (!symmetry) return std::nullopt;
  std::optional<Schedule> shorter = shortened(schedule, symmetry->ranks);
  if (!shorter) shorter = first_of(schedule, symmetry->ranks);
  geometry->segments = shorter->header.layout.segments;
  if (symmetry->split) shorter->header.slots /= 2;
  if (shorter->header.slots == 0) return std::nullopt;
  const Result<std::uint64_t> messages = run_both(*shorter, *geometry, &*symmetry);
  return messages ? std::optional(*messages) : std::nullopt;
}

// A short run may refuse what is fine in full (it has fewer slots), and names iterations of the short loops; so the full run has
// the last word, where it is affordable.
Result<std::uint64_t> check_shortest(const Schedule& schedule) {
  if (const std::optional<std::uint64_t> messages = check_alike(schedule)) return *messages;
  const std::optional<Schedule> shorter = shortened(schedule);
  if (!shorter) return check_as_it_is(schedule);
  Result<std::uint64_t> messages = check_as_it_is(*shorter);
  if (messages || !shape_of(schedule)) return messages;
  return check_as_it_is(schedule);
}

std::uint64_t most_steps(const Schedule& schedule) {
  std::uint64_t most = 0;
  for (const std::vector<Lane>& lanes : schedule.lanes) {
    std::uint64_t steps = 0;
    for (const Lane& lane : lanes) steps += lane.steps.size();
    most = std::max(most, steps);
  }
  return most;
}

}  // namespace

Result<CheckReport> check(const Schedule& schedule, const CheckOptions& options) {
  const Result<std::uint64_t> messages = options.full ? check_as_it_is(schedule) : check_shortest(schedule);
  if (!messages) return std::unexpected(messages.error());
  return CheckReport{.messages = *messages, .steps = most_steps(schedule)};
}

}  // namespace r2ccl
