// What steps do to the buffers of a rank, and whether they may.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/check/check_run.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kMaxSetBytes = std::uint64_t{1} << 30;

const char* name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::kInput:
      return "input";
    case Buffer::kOutput:
      return "output";
    case Buffer::kScratch:
      return "scratch";
    case Buffer::kNone:
      break;
  }
  return "no buffer";
}

}  // namespace

bool CheckRun::in_window(Window window, std::uint32_t rank, std::uint32_t piece) const {
  switch (window) {
    case Window::kAll:
      return true;
    case Window::kRoot:
      return rank == header_.root;
    case Window::kOwnBlock:
      return geometry_.owner[piece] == rank;
  }
  return false;
}

bool CheckRun::locate(LaneState& lane, Buffer buffer, const Index& slot, bool write, Place& place) {
  place = {.first = geometry_.cell(lane.now.span.first, lane.now.segment), .count = lane.now.span.count};
  if (buffer == Buffer::kScratch) {
    const std::int64_t number = slot.at(lane.cursor.outer(), lane.cursor.inner());
    if (number < 0 || number >= header_.scratch_slots) {
      return refuse(lane, fmt::format("scratch slot {} is not one of {}", number, header_.scratch_slots));
    }
    if (place.count > geometry_.scratch_width) return refuse(lane, "the range is larger than a scratch slot");
    place.cells = cells_.data() + lane.rank * cells_per_rank_ + geometry_.cells() +
                  static_cast<std::size_t>(number) * geometry_.scratch_width;
    place.behind = geometry_.scratch_width - place.count;
    return true;
  }
  if (buffer != Buffer::kInput && buffer != Buffer::kOutput) return refuse(lane, "names no buffer to use");
  if (write && buffer == Buffer::kInput) return refuse(lane, "writes to the input");
  const Window window = buffer == Buffer::kInput ? windows_.input : windows_.output;
  for (std::uint32_t i = 0; i < place.count; ++i) {
    const std::uint32_t piece = lane.now.span.first + i;
    if (!in_window(window, lane.rank, piece)) {
      return refuse(lane, fmt::format("{} is not in this rank's {}", cell_text(place.first + i), name_of(buffer)));
    }
  }
  if (buffer == Buffer::kOutput || in_place_) place.cells = cells_.data() + lane.rank * cells_per_rank_ + place.first;
  return true;
}

// In all_to_all data moves between blocks, but never to another place of a block: only so are lengths equal for every
// size.
bool CheckRun::belongs(Value value, std::uint32_t cell) const {
  if (value.origin == cell) return true;
  if (header_.collective != Collective::kAllToAll) return false;
  const std::uint32_t pieces = geometry_.pieces;
  return value.origin / pieces == cell / pieces &&
         geometry_.place[value.origin % pieces] == geometry_.place[cell % pieces];
}

bool CheckRun::load(LaneState& lane, const Place& place, bool send, Value* into) {
  if (place.cells == nullptr) {
    const SetId own = sets_.single(lane.rank);
    for (std::uint32_t i = 0; i < place.count; ++i) into[i] = {place.first + i, own};
    return true;
  }
  for (std::uint32_t i = 0; i < place.count; ++i) {
    Cell& cell = place.cells[i];
    if (cell.value.set == kNothing)
      return refuse(lane, fmt::format("reads {}, which holds nothing yet", cell_text(place.first + i)));
    if (!belongs(cell.value, place.first + i)) {
      return refuse(lane,
                    fmt::format("reads {}, but there is {}", cell_text(place.first + i), cell_text(cell.value.origin)));
    }
    if (cell.writer != kNone && !happened_before(lane, cell.writer, cell.write_event)) {
      return refuse(lane, fmt::format("reads {} without a wait for {}, which writes it", cell_text(place.first + i),
                                      where(lane, cell.writer, cell.write_event)));
    }
    add_use(lane, cell, send);
    into[i] = cell.value;
  }
  return true;
}

void CheckRun::add_use(LaneState& lane, Cell& cell, bool send) {
  if (!send) {
    if (lane.seen.size() == 1) return;  // no other lane could get in the way
    if (cell.uses != kNone && uses_[cell.uses].lane == lane.number && !uses_[cell.uses].send) {
      uses_[cell.uses].event = lane.events();
      return;
    }
  }
  const Use use{.next = cell.uses, .event = lane.events(), .lane = lane.number, .send = send};
  if (free_use_ != kNone) {
    cell.uses = free_use_;
    free_use_ = uses_[cell.uses].next;
    uses_[cell.uses] = use;
  } else {
    cell.uses = static_cast<std::uint32_t>(uses_.size());
    uses_.push_back(use);
  }
}

bool CheckRun::came_back(const LaneState& lane, const Value* message, Knowledge& known) const {
  if (message == nullptr || !sets_.contains(message->set, lane.rank)) return false;
  const OwnSend& send = own_sends_[std::size_t{lane.rank} * geometry_.cells() + message->origin];
  if (send.times != 1) return false;
  known = knowledge_at(lane_of(lane.rank, send.lane), send.event);
  return true;
}

bool CheckRun::may_write(LaneState& lane, Cell& cell, std::uint32_t named, const Value* message) {
  const Knowledge now = knowledge(lane);
  Knowledge then;
  enum class Back : std::uint8_t { kUnknown, kYes, kNo } asked = Back::kUnknown;  // most writes need not ask
  const auto back = [&] {
    if (asked == Back::kUnknown) asked = came_back(lane, message, then) ? Back::kYes : Back::kNo;
    return asked == Back::kYes;
  };
  const auto known = [&](std::uint32_t other, std::uint32_t event) {
    return now.has(other, event) || (back() && then.has(other, event));
  };
  const auto received = [&](const Use& use) {
    if (receipt_known(now, lane.rank, use.lane, use.event)) return true;
    if (!back()) return false;
    return (use.lane == then.lane && use.event == then.event) || receipt_known(then, lane.rank, use.lane, use.event);
  };
  const auto conflict = [&](const char* text, std::uint32_t other, std::uint32_t event, const char* what) {
    return refuse(lane, fmt::format(fmt::runtime(text), cell_text(named), where(lane, other, event), what));
  };
  if (cell.writer != kNone && !known(cell.writer, cell.write_event)) {
    return conflict("writes {} without a wait for {}, which {}", cell.writer, cell.write_event, "writes it too");
  }
  std::uint32_t last = kNone;
  for (std::uint32_t u = cell.uses; u != kNone; u = uses_[u].next) {
    last = u;
    const Use& use = uses_[u];
    if (use.send && !received(use)) {
      return conflict("overwrites {} before the receipt of {}, which {}", use.lane, use.event, "sends it");
    }
    if (!use.send && !known(use.lane, use.event)) {
      return conflict("writes {} without a wait for {}, which {}", use.lane, use.event, "reads it");
    }
  }
  if (last != kNone) {
    uses_[last].next = free_use_;
    free_use_ = cell.uses;
    cell.uses = kNone;
  }
  return true;
}

bool CheckRun::store(LaneState& lane, const Place& place, const Value* values, const Value* message) {
  for (std::uint32_t i = 0; i < place.count; ++i) {
    Cell& cell = place.cells[i];
    if (!belongs(values[i], place.first + i)) {
      return refuse(lane, fmt::format("writes {} to {}", cell_text(values[i].origin), cell_text(place.first + i)));
    }
    const bool untouched = cell.writer == kNone && cell.uses == kNone;
    if (!untouched && !may_write(lane, cell, place.first + i, message == nullptr ? nullptr : message + i)) return false;
    cell.value = values[i];
    cell.writer = lane.number;
    cell.write_event = lane.events();
  }
  for (std::uint32_t i = place.count; i < place.count + place.behind; ++i) {
    Cell& cell = place.cells[i];
    if (cell.value.set == kNothing) continue;
    if (!may_write(lane, cell, cell.value.origin, nullptr)) return false;
    cell.value = {};
    cell.writer = lane.number;
    cell.write_event = lane.events();
  }
  return true;
}

bool CheckRun::add(LaneState& lane, std::uint32_t first, Value* into, const Value* other, std::uint32_t count) {
  SetId augend = kNothing;  // neighbours mostly add the same sets
  SetId addend = kNothing;
  SetId sum = kNothing;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (into[i].origin != other[i].origin) {
      return refuse(lane, fmt::format("adds {} to {}", cell_text(other[i].origin), cell_text(into[i].origin)));
    }
    if (into[i].set != augend || other[i].set != addend) {
      augend = into[i].set;
      addend = other[i].set;
      sum = sets_.unite(augend, addend);
    }
    if (sum == kNothing) {
      return refuse(lane, fmt::format("counts the contribution of rank {} to {} twice",
                                      sets_.first_common(into[i].set, other[i].set), cell_text(first + i)));
    }
    into[i].set = sum;
  }
  if (sets_.bytes() > kMaxSetBytes) return refuse(lane, "makes one partial sum too many to be checked");
  return true;
}

void CheckRun::count_own(LaneState& lane, const Value* values, std::uint32_t count) {
  OwnSend* sent = own_sends_.data() + std::size_t{lane.rank} * geometry_.cells();
  for (std::uint32_t i = 0; i < count; ++i) {
    OwnSend& own = sent[values[i].origin];
    if (own.times == 2 || !sets_.contains(values[i].set, lane.rank)) continue;
    if (++own.times == 1) own = {.event = lane.events(), .lane = static_cast<std::uint16_t>(lane.number), .times = 1};
  }
}

}  // namespace r2ccl
