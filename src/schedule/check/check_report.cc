// The sentences of a refusal.
#include <fmt/format.h>

#include "schedule/check/check_run.h"

namespace r2ccl {

std::string CheckRun::where(const LaneState& lane, std::uint64_t position) const {
  const LoopShape::Place p = lane.shape.place(position);
  const std::string name = lane.lane->name.empty() ? std::to_string(lane.number) : lane.lane->name;
  return fmt::format("rank {}, lane {}, step {} (iteration {}.{})", lane.rank, name, p.step, p.outer, p.inner);
}

std::string CheckRun::where(const LaneState& lane, std::uint32_t other_lane, std::uint32_t event) const {
  const LaneState& other = lane_of(lane.rank, other_lane);
  const std::uint64_t position = event < other.events() ? other.positions[event] : other.here;
  const LoopShape::Place p = other.shape.place(position);
  const std::string name = other.lane->name.empty() ? std::to_string(other.number) : other.lane->name;
  return fmt::format("lane {}, step {} (iteration {}.{})", name, p.step, p.outer, p.inner);
}

std::string CheckRun::cell_text(std::uint32_t cell) const {
  const std::uint32_t piece = geometry_.number[cell % geometry_.pieces];
  if (geometry_.segments == 1) return fmt::format("piece {}", piece);
  return fmt::format("piece {} of segment {}", piece, cell / geometry_.pieces);
}

std::string CheckRun::blocked_text(const LaneState& lane) const {
  const Step& step = lane.cursor.step();
  switch (lane.blocked) {
    case Blocked::kMessage:
      return fmt::format("waits forever for a message from rank {} on channel {}", lane.cursor.from(), step.channel_in);
    case Blocked::kSlot:
      return fmt::format("waits forever for a free slot ({} of {} in use) to rank {} on channel {}", header_.slots,
                         header_.slots, lane.cursor.to(), step.channel_out);
    case Blocked::kPassing: {
      const Wait& w = step.waits[lane.now.waits_done];
      const LaneState& target = lanes_[lane.blocked_lane];
      return fmt::format("waits forever for step {} of lane {} in iteration {}", w.step,
                         target.lane->name.empty() ? std::to_string(target.number) : target.lane->name,
                         std::int64_t{lane.cursor.outer()} + w.outer_offset);
    }
    case Blocked::kReceipt: {
      const LaneState& target = lanes_[lane.blocked_lane];
      return fmt::format("waits forever for the receipt of {}", where(lane, target.number, lane.blocked_event));
    }
    case Blocked::kNo:
      break;
  }
  return "does not go on";
}

bool CheckRun::refuse(const LaneState& lane, const std::string& reason) {
  error_ = fmt::format("{}: {}{}", where(lane, lane.here), reason, in_place_ ? ", in place" : "");
  return false;
}

}  // namespace r2ccl
