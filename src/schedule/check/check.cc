#include "schedule/check/check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "schedule/check/check_run.h"
#include "schedule/check/check_shape.h"
#include "schedule/check/check_shorten.h"
#include "schedule/check/check_symmetry.h"
#include "schedule/check/check_values.h"

namespace r2ccl {
namespace {

// What is run: the schedule, or a shorter one, of all ranks or of those that stand for all.
struct Run {
  const Schedule& schedule;
  const Geometry& geometry;
  const Shorter* shorter = nullptr;  // where `schedule` is from, if it is shorter
  const Symmetry* symmetry = nullptr;
};

Result<std::uint64_t> run_placed(const Run& run, ContributionSets& sets, bool in_place) {
  CheckRun check(run.schedule, run.geometry, sets, in_place, run.symmetry);
  if (run.shorter != nullptr) check.set_slots(run.shorter->sweep_channels, run.shorter->sweep_slots);
  return check.run();
}

// Both placements; the number of messages of one.
Result<std::uint64_t> run_both(const Run& run) {
  ContributionSets sets(run.schedule.header.ranks);
  Result<std::uint64_t> messages = run_placed(run, sets, false);
  // all_to_all moves data between blocks and has no in-place form.
  if (!messages || run.schedule.header.collective == Collective::kAllToAll) return messages;
  return run_placed(run, sets, true);
}

Result<std::uint64_t> run_all(const Schedule& schedule, const Shorter* shorter = nullptr) {
  const Result<Geometry> geometry = shape_of(schedule);
  if (!geometry) return std::unexpected(geometry.error());
  return run_both({schedule, *geometry, shorter});
}

std::optional<std::uint64_t> run_alike(Shorter run, Geometry geometry, const Symmetry& symmetry) {
  geometry.segments = run.schedule.header.layout.segments;
  if (symmetry.split) run.schedule.header.slots /= 2;
  if (run.schedule.header.slots == 0 || (symmetry.split && !run.sweep_channels.empty())) return std::nullopt;
  const Result<std::uint64_t> messages = run_both({run.schedule, geometry, &run, &symmetry});
  return messages ? std::optional(*messages) : std::nullopt;
}

// By the ranks that stand for all, if there are any. Nothing if there are none, or if they refuse it: then all ranks
// say why.
std::optional<std::uint64_t> check_alike(const Schedule& schedule) {
  const Result<Geometry> geometry = shape_of(schedule);
  if (!geometry) return std::nullopt;
  const std::optional<Symmetry> symmetry = symmetry_of(schedule, *geometry);
  if (!symmetry) return std::nullopt;
  if (std::optional<Shorter> shorter = shortened(schedule, symmetry->ranks)) {
    const std::optional<std::uint64_t> messages = run_alike(std::move(*shorter), *geometry, *symmetry);
    if (messages) return messages;
  }
  const auto first = schedule.lanes.begin();
  Schedule in_full{schedule.header, {first, first + symmetry->ranks}};
  return run_alike({.schedule = std::move(in_full), .sweep_channels = {}}, *geometry, *symmetry);
}

// A short run may refuse what is fine in full (it has fewer slots), and names iterations of the short loops; so the
// full run has the last word, where it is affordable.
Result<std::uint64_t> check_shortest(const Schedule& schedule) {
  if (const std::optional<std::uint64_t> messages = check_alike(schedule)) return *messages;
  const std::optional<Shorter> shorter = shortened(schedule);
  if (!shorter) return run_all(schedule);
  Result<std::uint64_t> messages = run_all(shorter->schedule, &*shorter);
  if (messages || !shape_of(schedule)) return messages;
  return run_all(schedule);
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
  const Result<std::uint64_t> messages = options.full ? run_all(schedule) : check_shortest(schedule);
  if (!messages) return std::unexpected(messages.error());
  return CheckReport{.messages = *messages, .steps = most_steps(schedule)};
}

}  // namespace r2ccl
