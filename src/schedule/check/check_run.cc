#include "schedule/check/check_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace r2ccl {
namespace {

constexpr std::uint64_t kMaxCellWork = std::uint64_t{1} << 32;

constexpr bool reads_source(StepKind k) {
  return k != StepKind::kRecv && k != StepKind::kRecvCopySend;
}
constexpr bool writes_destination(StepKind k) {
  return k != StepKind::kSend && k != StepKind::kRecvReduceSend;
}

}  // namespace

CheckRun::CheckRun(const Schedule& schedule, const Geometry& geometry, ContributionSets& sets, bool in_place,
                   const Symmetry* symmetry)
    : schedule_(schedule),
      header_(schedule.header),
      geometry_(geometry),
      sets_(sets),
      in_place_(in_place),
      symmetry_(symmetry),
      ranks_(symmetry != nullptr ? symmetry->ranks : schedule.header.ranks),
      windows_(windows_of(schedule.header.collective)),
      connection_keys_(1024, 0),
      connection_values_(1024, 0),
      free_values_(geometry.pieces + 1),
      data_(geometry.pieces),
      incoming_(geometry.pieces),
      operand_(geometry.pieces) {
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) count += schedule.lanes[rank].size();
  lanes_.reserve(count);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<Lane>& lanes = schedule.lanes[rank];
    first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      LaneState& state = lanes_.emplace_back(lanes[i], rank, i);
      state.seen.assign(lanes.size(), 0);
      plan_peers(state);
      for (const Step& s : lanes[i].steps) {
        state.first_wait.push_back(static_cast<std::uint32_t>(state.waited.size()));
        state.waited.resize(state.waited.size() + s.waits.size(), 0);
      }
      if (!state.cursor.done())
        state.here = state.shape.position(state.cursor.step_number(), state.cursor.outer(), state.cursor.inner());
    }
    for (const Lane& lane : lanes) {
      for (const Step& s : lane.steps) {
        for (const Wait& w : s.waits) lane_of(rank, w.lane).is_waited_for = true;
      }
    }
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      LaneState& state = lane_of(rank, i);
      state.keeps_snapshots =
          state.is_waited_for || std::ranges::any_of(lanes[i].steps, [](const Step& s) { return sends(s.kind); });
    }
  }
  cells_per_rank_ = geometry.cells() + std::size_t{header_.scratch_slots} * geometry.scratch_width;
  cells_.resize(cells_per_rank_ * ranks_);
  own_sends_.resize(std::size_t{geometry.cells()} * ranks_);
  if (!in_place) return;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    for (std::uint32_t cell = 0; cell < geometry.cells(); ++cell) {
      if (!in_window(windows_.input, rank, cell % geometry.pieces)) continue;
      cells_[rank * cells_per_rank_ + cell].value = {cell, sets.single(rank)};
    }
  }
}

Result<std::uint64_t> CheckRun::run() {
  for (std::size_t id = lanes_.size(); id-- > 0;) wake(static_cast<std::uint32_t>(id));
  bool fine = true;
  while (fine && !work_.empty()) {
    LaneState& lane = lanes_[work_.back()];
    work_.pop_back();
    lane.queued = false;
    fine = run_lane(lane);
  }
  if (!fine || !check_end()) return fail(Fault::kMisuse, error_);
  return symmetry_ != nullptr ? sent_ * symmetry_->turns : sent_;
}

void CheckRun::wake(std::uint32_t lane) {
  LaneState& state = lanes_[lane];
  state.blocked = Blocked::kNo;
  if (state.queued) return;
  state.queued = true;
  work_.push_back(lane);
}

bool CheckRun::run_lane(LaneState& lane) {
  while (!lane.cursor.done()) {
    const Outcome outcome = run_step(lane);
    if (outcome != Outcome::kRan) return outcome == Outcome::kBlocked;
    lane.cursor.next();
    lane.now = {};
    if (!lane.cursor.done())
      lane.here = lane.shape.position(lane.cursor.step_number(), lane.cursor.outer(), lane.cursor.inner());
    if (!lane.waiters.empty()) notify_progress(lane);
  }
  return true;
}

CheckRun::Outcome CheckRun::run_step(LaneState& lane) {
  if (!lane.now.valid && !resolve(lane)) return Outcome::kRefused;
  if (const Outcome o = await(lane); o != Outcome::kRan) return o;
  const bool empty = lane.now.span.count == 0;
  if (!empty) {
    if (const Outcome o = await_connections(lane); o != Outcome::kRan) return o;
    cell_work_ += lane.now.span.count;
    if (cell_work_ > kMaxCellWork) {
      refuse(lane, "is one step more than can be checked");
      return Outcome::kRefused;
    }
    if (!execute(lane)) return Outcome::kRefused;
  }
  lane.positions.push_back(lane.here);
  lane.received.push_back(empty || !sends(lane.cursor.step().kind) ? 1 : 0);
  if (lane.is_waited_for) lane.receipts.push_back(kNone);
  return Outcome::kRan;
}

bool CheckRun::resolve(LaneState& lane) {
  const Step& step = lane.cursor.step();
  const std::int64_t span = lane.cursor.span();
  const std::int64_t segment = lane.cursor.segment();
  if (span < 0 || span >= static_cast<std::int64_t>(geometry_.spans.size())) {
    return refuse(lane, fmt::format("span {} is not one of {}", span, geometry_.spans.size()));
  }
  if (segment < 0 || segment >= geometry_.segments) {
    return refuse(lane, fmt::format("segment {} is not one of {}", segment, geometry_.segments));
  }
  lane.now.span = geometry_.spans[static_cast<std::size_t>(span)];
  lane.now.segment = static_cast<std::uint32_t>(segment);
  lane.now.source = lane.cursor.source();
  if (lane.now.span.count != 0) {
    if (receives(step.kind) && !resolve_peer(lane, true, lane.now.in)) return false;
    if (sends(step.kind) && !resolve_peer(lane, false, lane.now.out)) return false;
  }
  lane.now.valid = true;
  return true;
}

bool CheckRun::execute(LaneState& lane) {
  const Step& step = lane.cursor.step();
  const StepKind kind = step.kind;
  const std::uint32_t count = lane.now.span.count;
  const bool incoming = receives(kind);
  // A source may be left out where a message is there instead, a destination where the message goes on.
  const bool has_source = reads_source(kind) && (lane.now.source != Buffer::kNone || !incoming);
  const bool has_destination =
      writes_destination(kind) && (step.destination.buffer != Buffer::kNone || kind != StepKind::kRecvCopySend);
  Place source;
  Place destination;
  if (has_source && !locate(lane, lane.now.source, step.source.slot, false, source)) return false;
  if (has_destination && !locate(lane, step.destination.buffer, step.destination.slot, true, destination)) return false;
  if (kind == StepKind::kCopy && source.cells == destination.cells) return true;  // in place it is there already

  if (incoming) {
    if (!take_message(lane)) return false;
    std::copy_n(incoming_.begin(), count, data_.begin());
  }
  if (kind == StepKind::kReduce && !load(lane, destination, false, data_.data())) return false;
  if (has_source && (incoming || kind == StepKind::kReduce)) {
    if (!load(lane, source, false, operand_.data())) return false;
    if (!add(lane, geometry_.cell(lane.now.span.first, lane.now.segment), data_.data(), operand_.data(), count))
      return false;
  } else if (has_source && !load(lane, source, kind == StepKind::kSend, data_.data())) {
    return false;
  }
  if (has_destination && !store(lane, destination, data_.data(), incoming ? incoming_.data() : nullptr)) return false;
  if (incoming) drop_message(lane);
  if (!sends(kind)) return true;
  if (has_destination) {
    for (std::uint32_t i = 0; i < count; ++i) add_use(lane, destination.cells[i], true);
  }
  post_message(lane);
  return true;
}

Value CheckRun::promised(std::uint32_t rank, std::uint32_t piece, std::uint32_t segment) const {
  const std::uint32_t cell = geometry_.cell(piece, segment);
  switch (header_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return {cell, sets_.full()};
    case Collective::kBroadcast:
    case Collective::kScatter:
      return {cell, sets_.single(header_.root)};
    case Collective::kAllGather:
    case Collective::kGather:
      return {cell, sets_.single(geometry_.owner[piece])};
    case Collective::kAllToAll: {
      const std::uint32_t width = geometry_.pieces / header_.ranks;  // blocks are cut alike
      return {geometry_.cell(rank * width + piece % width, segment), sets_.single(geometry_.owner[piece])};
    }
  }
  return {};
}

bool CheckRun::check_end() {
  for (const LaneState& lane : lanes_) {
    if (!lane.cursor.done()) return refuse(lane, blocked_text(lane));
  }
  for (const Connection& c : connections_) {
    if (c.head == kNone) continue;
    const Message& m = messages_[c.head];
    const LaneState& sender = lanes_[m.sender];
    error_ = where(sender, sender.positions[m.event]) + ": sends a message that nobody receives";
    return false;
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!check_outputs(rank)) return false;
  }
  return true;
}

bool CheckRun::check_outputs(std::uint32_t rank) {
  for (std::uint32_t number = 0; number < geometry_.cells(); ++number) {
    const std::uint32_t piece = number % geometry_.pieces;
    if (!in_window(windows_.output, rank, piece)) continue;
    const Value wanted = promised(rank, piece, number / geometry_.pieces);
    const Cell& cell = cells_[rank * cells_per_rank_ + number];
    if (cell.value == wanted) continue;
    if (cell.writer == kNone) {
      error_ = fmt::format("rank {}, no lane, no step: the output of {} is never written{}", rank, cell_text(number),
                           in_place_ ? ", in place" : "");
      return false;
    }
    std::string reason = "data of " + cell_text(cell.value.origin);
    if (cell.value.origin == wanted.origin) {
      const std::uint32_t missing = sets_.first_without(wanted.set, cell.value.set);
      reason = missing < header_.ranks
                   ? fmt::format("no contribution of rank {}", missing)
                   : fmt::format("a contribution of rank {}", sets_.first_without(cell.value.set, wanted.set));
    }
    const LaneState& writer = lane_of(rank, cell.writer);
    error_ = fmt::format("{}: leaves {} in the output of {}{}", where(writer, writer.positions[cell.write_event]),
                         reason, cell_text(number), in_place_ ? ", in place" : "");
    return false;
  }
  return true;
}

}  // namespace r2ccl
