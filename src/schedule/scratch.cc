#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "schedule/check/check.h"
#include "schedule/check/check_shorten.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

std::uint64_t divided_up(std::uint64_t size, std::uint64_t part, std::uint64_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{size} * part + whole - 1) / whole);
}

// The largest segment of a span: Layout::range() rounds both cuts down, so a cut is at most its share rounded up.
std::uint64_t largest_range(const Layout& layout, std::uint32_t span_number, std::uint64_t bytes) {
  const Span s = layout.span(span_number);
  const std::uint64_t part = layout.bounds[s.first + s.count] - layout.bounds[s.first];
  if (layout.order == Layout::Order::kSegmentsOutside) {
    return divided_up(divided_up(bytes, 1, layout.segments), part, layout.bounds.back());
  }
  return divided_up(divided_up(bytes, part, layout.bounds.back()), 1, layout.segments);
}

bool reduces(StepKind kind) {
  return kind == StepKind::kRecvReduce || kind == StepKind::kRecvReduceSend || kind == StepKind::kRecvReduceCopySend;
}

class RankNeed {
 public:
  RankNeed(const PlanHeader& header, std::uint64_t bytes) : header_(header), bytes_(bytes) {}

  static bool counts(const Step& step) { return step.destination.buffer == Buffer::kScratch || reduces(step.kind); }

  void take(const LaneCursor& at) {
    const Step& step = at.step();
    const auto span = static_cast<std::uint32_t>(at.span());
    if (step.destination.buffer == Buffer::kScratch) {
      slot_ = std::max(slot_, largest_range(header_.layout, span, bytes_));
    }
    if (!reduces(step.kind)) return;
    std::uint64_t& largest = staged_[{at.from(), step.channel_in}];
    largest = std::max(largest, largest_range(header_.layout, span, bytes_));
  }

  std::uint64_t total() const {
    std::uint64_t sum = slot_ * header_.scratch_slots;
    for (const auto& [connection, largest] : staged_) sum += largest * header_.slots;
    return sum;
  }

 private:
  const PlanHeader& header_;
  std::uint64_t bytes_;
  std::uint64_t slot_ = 0;
  std::map<std::pair<std::int64_t, std::uint32_t>, std::uint64_t> staged_;  // by (from, channel): the largest message
};

}  // namespace

std::uint64_t scratch_bytes(const Schedule& schedule, std::uint64_t bytes) {
  // The short form has the same peers and spans.
  const std::optional<Shorter> shorter = shortened(schedule);
  std::uint64_t most = 0;
  for (const std::vector<Lane>& lanes : shorter ? shorter->schedule.lanes : schedule.lanes) {
    RankNeed need(schedule.header, bytes);
    for (const Lane& lane : lanes) {
      if (std::ranges::none_of(lane.steps, RankNeed::counts)) continue;
      for (LaneCursor at(lane); !at.done(); at.next()) need.take(at);
    }
    most = std::max(most, need.total());
  }
  return most;
}

}  // namespace r2ccl
