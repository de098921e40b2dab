#include "planner/algorithm/parts/two_hops.h"

#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kReduceChannel = 0;
constexpr std::uint32_t kGatherChannel = 1;
constexpr std::uint32_t kInLane = 1;

}  // namespace

std::vector<Lane> two_hops(std::uint32_t me, std::uint32_t ranks, const Hop& first, const Hop& second) {
  // Peers in rotation, so that at any time everybody sends to somebody else.
  const Index next = rotate(me + 1, 1, ranks);
  const Index previous = rotate(std::int64_t{me} - 1, -1, ranks);
  const auto in_first = [&](Step step) { return during(first.begin, first.end, std::move(step)); };
  const auto in_second = [&](Step step) { return during(second.begin, second.end, std::move(step)); };
  const auto behind = static_cast<std::int32_t>(second.begin - first.begin);
  const Wait summed{.lane = kInLane, .step = 0, .outer_offset = -behind};

  Lane out{.name = "out", .outer = second.end, .inner = ranks - 1, .steps = {}};
  out.steps = {in_first(send(next, {next, first.segment}, Buffer::kInput, kReduceChannel)),
               in_second(after(summed, send(next, {fixed(me), second.segment}, Buffer::kOutput, kGatherChannel)))};
  Lane into{.name = "in", .outer = second.end, .inner = ranks - 1, .steps = {}};
  into.steps = {
      in_first(accumulate(previous, {fixed(me), first.segment}, Buffer::kInput, Buffer::kOutput, kReduceChannel)),
      in_second(recv(previous, {previous, second.segment}, Buffer::kOutput, kGatherChannel))};
  return {std::move(out), std::move(into)};
}

}  // namespace r2ccl
