#include "schedule/check/check.h"

#include <algorithm>
#include <optional>

#include "schedule/check/check_run.h"
#include "schedule/check/check_shape.h"
#include "schedule/check/check_shorten.h"
#include "schedule/check/check_values.h"

namespace r2ccl {
namespace {

// Both placements; the number of messages of one.
Result<std::uint64_t> check_as_it_is(const Schedule& schedule) {
  const Result<Geometry> geometry = shape_of(schedule);
  if (!geometry) return std::unexpected(geometry.error());
  ContributionSets sets(schedule.header.ranks);
  Result<std::uint64_t> messages = CheckRun(schedule, *geometry, sets, false).run();
  // all_to_all moves data between blocks and has no in-place form.
  if (!messages || schedule.header.collective == Collective::kAllToAll) return messages;
  return CheckRun(schedule, *geometry, sets, true).run();
}

// A short run may refuse what is fine in full (it has fewer slots), and names iterations of the short loops; so the full run has
// the last word, where it is affordable.
Result<std::uint64_t> check_shortest(const Schedule& schedule) {
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
