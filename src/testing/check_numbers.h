#pragma once
// Runs a schedule with real numbers in a random order, for tests: what the checker accepts must come out right however
// lanes and transport take turns. A message is read from its buffer either when it is sent or, as late as a transport
// may, when it is received. The data is one number for every segment of every piece or, where a count is given, that
// many elements cut by Layout::range().

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/cursor.h"
#include "schedule/schedule.h"

namespace r2ccl::example {

class Numbers {
 public:
  // `count`, of the whole vector, must be a multiple of the ranks for collectives made of blocks.
  Numbers(const Schedule& schedule, bool in_place, std::uint32_t seed, std::optional<std::uint32_t> count = {})
      : schedule_(schedule), in_place_(in_place), random_(seed), count_(count) {
    const PlanHeader& f = schedule.header;
    row_ = count ? *count : f.layout.pieces();
    cells_ = count ? *count : row_ * f.layout.segments;
    std::mt19937_64 values(seed);
    ranks_.resize(f.ranks);
    for (std::uint32_t r = 0; r < f.ranks; ++r) {
      for (std::uint32_t c = 0; c < cells_; ++c) ranks_[r].input.push_back(values());
      ranks_[r].start = ranks_[r].input;
      ranks_[r].output.assign(cells_, 0);
      ranks_[r].scratch.assign(std::size_t{f.scratch_slots} * row_, 0);
      for (const Lane& lane : schedule.lanes[r]) ranks_[r].lanes.emplace_back(lane);
    }
  }

  // Every promise kept.
  bool right() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (std::uint32_t l = 0; l < ranks_[r].lanes.size(); ++l) open.emplace_back(r, l);
    }
    while (!open.empty()) {
      std::ranges::shuffle(open, random_);
      bool moved = false;
      for (const auto& [r, l] : open) {
        if (ranks_[r].lanes[l].done() || !ready(r, l)) continue;
        execute(r, l);
        moved = true;
        if (random_() % 4 == 0) break;
      }
      std::erase_if(open, [&](const auto& x) { return ranks_[x.first].lanes[x.second].done(); });
      if (!moved && !open.empty()) return false;
    }
    return !misfit_ && outputs_right();
  }

 private:
  using Iteration = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // lane, step, outer, inner
  struct Message {
    std::vector<std::uint64_t> values;
    std::vector<const std::uint64_t*> late;  // read on receipt instead
    std::uint32_t sender = 0;
    Iteration iteration;
  };
  struct Rank {
    std::vector<std::uint64_t> input, output, scratch, start;
    std::vector<LaneCursor> lanes;
    std::set<Iteration> unreceived;
  };
  using Connection = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

  Span span_of(const LaneCursor& at) const {
    return schedule_.header.layout.span(static_cast<std::uint32_t>(at.span()));
  }
  ElementRange range_of(const LaneCursor& at) const {
    return schedule_.header.layout.range(static_cast<std::uint32_t>(at.span()),
                                         static_cast<std::uint32_t>(at.segment()), *count_);
  }
  bool empty(const LaneCursor& at) const {
    if (count_) return range_of(at).empty();
    return schedule_.header.layout.share(static_cast<std::uint32_t>(at.span())) == 0;
  }

  bool waits_over(const Rank& rank, const LaneCursor& at, const Wait& w) const {
    const std::int64_t outer = std::int64_t{at.outer()} + w.outer_offset;
    const std::int64_t inner = std::int64_t{at.inner()} + w.inner_offset;
    if (outer < 0 || (w.one_inner && inner < 0)) return true;
    const auto o = static_cast<std::uint32_t>(outer);
    const auto i = static_cast<std::uint32_t>(inner);
    if (!(w.one_inner ? rank.lanes[w.lane].passed(w.step, o, i) : rank.lanes[w.lane].passed(w.step, o))) return false;
    const auto [begin, end] = w.one_inner ? std::pair{i, i} : std::pair{0U, UINT32_MAX};
    const auto first = rank.unreceived.lower_bound({w.lane, w.step, o, begin});
    return first == rank.unreceived.end() || *first > Iteration{w.lane, w.step, o, end};
  }

  bool ready(std::uint32_t r, std::uint32_t l) {
    const LaneCursor& at = ranks_[r].lanes[l];
    const Step& s = at.step();
    for (const Wait& w : s.waits) {
      if (!waits_over(ranks_[r], at, w)) return false;
    }
    if (empty(at)) return true;
    if (receives(s.kind) && queues_[{at.from(), r, s.channel_in}].empty()) return false;
    return !sends(s.kind) || queues_[{r, at.to(), s.channel_out}].size() < schedule_.header.slots;
  }

  // What a step is about, in order; pieces without a share have no cells.
  std::vector<std::size_t> cells_of(const LaneCursor& at) const {
    std::vector<std::size_t> cells;
    if (count_) {
      for (std::uint64_t e = range_of(at).begin; e < range_of(at).end; ++e) cells.push_back(e);
      return cells;
    }
    const Layout& layout = schedule_.header.layout;
    const Span span = span_of(at);
    for (std::uint32_t piece = span.first; piece < span.first + span.count; ++piece) {
      if (layout.share(piece) > 0) cells.push_back(static_cast<std::size_t>(at.segment()) * layout.pieces() + piece);
    }
    return cells;
  }

  std::vector<std::uint64_t*> place(std::uint32_t r, const LaneCursor& at, Buffer buffer, const Index& slot) {
    std::vector<std::uint64_t*> places;
    Rank& rank = ranks_[r];
    std::size_t used = 0;
    for (const std::size_t cell : cells_of(at)) {
      if (buffer == Buffer::kScratch) {
        places.push_back(&rank.scratch[static_cast<std::size_t>(slot.at(at.outer(), at.inner())) * row_ + used++]);
      } else {
        places.push_back(buffer == Buffer::kOutput && !in_place_ ? &rank.output[cell] : &rank.input[cell]);
      }
    }
    return places;
  }

  std::vector<std::uint64_t> take(std::uint32_t r, const LaneCursor& at) {
    auto& queue = queues_[{at.from(), r, at.step().channel_in}];
    Message m = queue.front();
    queue.pop_front();
    ranks_[m.sender].unreceived.erase(m.iteration);
    for (std::size_t i = 0; i < m.late.size(); ++i) m.values[i] = *m.late[i];
    return m.values;
  }

  void execute(std::uint32_t r, std::uint32_t l) {
    LaneCursor& at = ranks_[r].lanes[l];
    if (!empty(at)) execute_here(r, l, at);
    at.next();
  }

  void execute_here(std::uint32_t r, std::uint32_t l, const LaneCursor& at) {
    const Step& s = at.step();
    const bool stores =
        s.kind != StepKind::kSend && s.kind != StepKind::kRecvReduceSend && s.destination.buffer != Buffer::kNone;
    const bool reads = s.kind != StepKind::kRecv && s.kind != StepKind::kRecvCopySend && at.source() != Buffer::kNone;
    std::vector<std::uint64_t*> source;
    std::vector<std::uint64_t*> destination;
    if (reads) source = place(r, at, at.source(), s.source.slot);
    if (stores) destination = place(r, at, s.destination.buffer, s.destination.slot);
    std::vector<std::uint64_t> data(std::max(source.size(), destination.size()), 0);
    if (receives(s.kind)) {
      data = take(r, at);
      const std::size_t expected = cells_of(at).size();
      misfit_ = misfit_ || data.size() != expected;
      data.resize(expected);
    }
    if (s.kind == StepKind::kReduce) {
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = *destination[i];
    }
    for (std::size_t i = 0; i < source.size(); ++i) data[i] += *source[i];
    for (std::size_t i = 0; i < destination.size(); ++i) *destination[i] = data[i];
    if (!sends(s.kind)) return;
    const std::vector<std::uint64_t*>& held = s.kind == StepKind::kSend ? source : destination;
    Message m{.values = data, .late = {}, .sender = r, .iteration = {l, at.step_number(), at.outer(), at.inner()}};
    if (random_() % 2 == 0) m.late.assign(held.begin(), held.end());
    ranks_[r].unreceived.insert(m.iteration);
    queues_[{r, at.to(), s.channel_out}].push_back(m);
  }

  bool outputs_right() const {
    const PlanHeader& f = schedule_.header;
    for (std::uint32_t r = 0; r < f.ranks; ++r) {
      for (std::uint32_t c = 0; c < cells_; ++c) {
        if (!count_ && f.layout.share(c % f.layout.pieces()) == 0) continue;
        const std::uint64_t got = (in_place_ ? ranks_[r].input : ranks_[r].output)[c];
        if (promised_here(r, c) && got != promised(r, c)) return false;
      }
    }
    return true;
  }

  std::uint32_t width() const { return row_ / schedule_.header.ranks; }
  std::uint32_t owner(std::uint32_t cell) const { return cell % row_ / width(); }

  bool promised_here(std::uint32_t r, std::uint32_t cell) const {
    switch (schedule_.header.collective) {
      case Collective::kReduce:
      case Collective::kGather:
        return r == schedule_.header.root;
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return owner(cell) == r;
      default:
        return true;
    }
  }

  std::uint64_t promised(std::uint32_t r, std::uint32_t cell) const {
    switch (schedule_.header.collective) {
      case Collective::kBroadcast:
      case Collective::kScatter:
        return ranks_[schedule_.header.root].start[cell];
      case Collective::kAllGather:
      case Collective::kGather:
        return ranks_[owner(cell)].start[cell];
      case Collective::kAllToAll:
        return ranks_[owner(cell)].start[cell - owner(cell) * width() + r * width()];
      default:
        break;
    }
    std::uint64_t sum = 0;
    for (const Rank& rank : ranks_) sum += rank.start[cell];
    return sum;
  }

  const Schedule& schedule_;
  bool in_place_;
  std::mt19937 random_;
  std::optional<std::uint32_t> count_;
  std::uint32_t row_ = 0;  // cells of a segment, or all elements; also the room of a scratch slot
  std::uint32_t cells_ = 0;
  bool misfit_ = false;  // a message was not of the size its receiver expected
  std::vector<Rank> ranks_;
  std::map<Connection, std::deque<Message>> queues_;
};

// Whether the schedule comes out right out of place and in place, in `orders` random orders each.
inline bool comes_out_right(const Schedule& schedule, std::uint32_t orders, std::optional<std::uint32_t> count = {}) {
  for (std::uint32_t seed = 0; seed < orders; ++seed) {
    if (!Numbers(schedule, false, seed, count).right()) return false;
    if (schedule.header.collective == Collective::kAllToAll) continue;
    if (!Numbers(schedule, true, seed, count).right()) return false;
  }
  return true;
}

}  // namespace r2ccl::example
