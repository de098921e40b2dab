#include "schedule/check/check_symmetry.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <utility>

namespace r2ccl {
namespace {

constexpr std::uint32_t kUnknown = UINT32_MAX;
constexpr Span kNoRun{0, 0};
constexpr std::uint64_t kMostWork = std::uint64_t{1} << 27;    // positions of indices that are compared; a second or so
constexpr std::uint64_t kMostPieces = std::uint64_t{1} << 22;  // of all turns

std::int64_t residue(std::int64_t value, std::uint32_t modulo) {
  const std::int64_t rest = value % modulo;
  return rest < 0 ? rest + modulo : rest;
}

// The same number in every iteration.
bool same(const Index& a, const Index& b) {
  if (a == b) return true;
  return a.modulo == b.modulo && a.modulo != 0 && a.scale == b.scale && a.offset == b.offset &&
         residue(a.base, a.modulo) == residue(b.base, a.modulo) &&
         residue(a.by_outer, a.modulo) == residue(b.by_outer, a.modulo) &&
         residue(a.by_inner, a.modulo) == residue(b.by_inner, a.modulo);
}

bool same(const Operand& a, const Operand& b) {
  return a.buffer == b.buffer && same(a.slot, b.slot);
}

// What does not name a rank or a range.
bool same_work(const Step& a, const Step& b) {
  return a.kind == b.kind && a.channel_in == b.channel_in && a.channel_out == b.channel_out &&
         same(a.segment, b.segment) && same(a.source, b.source) && same(a.destination, b.destination) &&
         a.has_first == b.has_first && a.first_source == b.first_source && a.outer_begin == b.outer_begin &&
         a.outer_end == b.outer_end && a.waits == b.waits &&
         std::ranges::equal(a.guards, b.guards, [](const Guard& x, const Guard& y) {
           return x.equals == y.equals && same(x.value, y.value);
         });
}

bool same_loops(const Lane& a, const Lane& b) {
  return a.outer == b.outer && a.inner == b.inner && a.inner_begin == b.inner_begin && a.inner_end == b.inner_end &&
         a.steps.size() == b.steps.size();
}

bool uses_scratch(const Step& step) {
  return step.source.buffer == Buffer::kScratch || step.first_source == Buffer::kScratch ||
         step.destination.buffer == Buffer::kScratch;
}

// Messages that nothing else is done with.
bool same_but_span(const Step& a, const Step& b) {
  return (a.kind == StepKind::kSend || a.kind == StepKind::kRecv) && a.kind == b.kind && !a.has_first && !b.has_first &&
         !uses_scratch(a) && !uses_scratch(b) && a.channel_in == b.channel_in && a.channel_out == b.channel_out &&
         same(a.from, b.from) && same(a.to, b.to) && same(a.segment, b.segment) && same(a.source, b.source) &&
         same(a.destination, b.destination) && a.outer_begin == b.outer_begin && a.outer_end == b.outer_end &&
         a.waits == b.waits;
}

// Somebody of this rank waits for this step or the next.
bool awaited(const std::vector<Lane>& lanes, std::size_t lane, std::uint32_t step) {
  return std::ranges::any_of(lanes, [&](const Lane& other) {
    return std::ranges::any_of(other.steps, [&](const Step& waiting) {
      return std::ranges::any_of(waiting.waits, [&](const Wait& wait) {
        return wait.lane == lane && (wait.step == step || wait.step == step + 1);
      });
    });
  });
}

// After how many outer iterations spans and guards repeat; all if not before.
std::uint64_t period_of(std::initializer_list<const Step*> steps, std::uint32_t outer) {
  std::uint64_t period = 1;
  const auto include = [&](const Index& index) {
    if (index.by_outer != 0) period = index.modulo == 0 ? outer : std::lcm(period, std::uint64_t{index.modulo});
    period = std::min<std::uint64_t>(period, outer);
  };
  for (const Step* step : steps) {
    include(step->span);
    for (const Guard& guard : step->guards) include(guard.value);
  }
  return period;
}

// The pieces of a step, or of two next to each other.
struct Runs {
  Span first = kNoRun;
  Span second = kNoRun;

  std::uint32_t count() const { return first.count + second.count; }
  std::uint32_t piece(std::uint32_t i) const {
    return i < first.count ? first.first + i : second.first + (i - first.count);
  }
  bool has(std::uint32_t piece) const {
    return piece - first.first < first.count || piece - second.first < second.count;
  }
};

struct RankPair {
  const Step& first;
  const Step& second;
};

// Whether a turn by some ranks maps the schedule to itself, and how it maps the pieces.
class RankTurn final {
 public:
  RankTurn(const Schedule& schedule, const Geometry& geometry, std::uint32_t ranks, std::uint64_t& work)
      : schedule_(schedule),
        geometry_(geometry),
        all_(schedule.header.ranks),
        ranks_(ranks),
        work_(work),
        piece_(geometry.pieces, kUnknown),
        span_(geometry.spans.size(), kUnknown) {}

  bool holds() {
    for (std::uint32_t rank = 0; rank < all_; ++rank) {
      if (!maps(schedule_.lanes[rank], schedule_.lanes[(rank + ranks_) % all_])) return false;
    }
    return runs_follow() && every_piece_once() && blocks_follow();
  }

  const std::vector<std::uint32_t>& piece() const { return piece_; }
  bool split() const { return split_; }

 private:
  bool maps(const std::vector<Lane>& lanes, const std::vector<Lane>& onto) {
    if (lanes.size() != onto.size()) return false;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!same_loops(lanes[lane], onto[lane])) return false;
      const std::size_t steps = lanes[lane].steps.size();
      for (std::size_t step = 0; step < steps; ++step) {
        if (maps(lanes[lane].steps[step], onto[lane].steps[step])) continue;
        if (step + 1 == steps || !maps_pair(lanes, onto, lane, step)) return false;
        ++step;
      }
    }
    return true;
  }

  bool maps_peers(const Step& step, const Step& onto) {
    const auto rank = [this](std::int64_t a, std::int64_t b) { return a >= 0 && a < all_ && b == (a + ranks_) % all_; };
    return same_work(step, onto) && (!receives(step.kind) || each(step.from, onto.from, rank)) &&
           (!sends(step.kind) || each(step.to, onto.to, rank));
  }

  bool maps(const Step& step, const Step& onto) {
    return maps_peers(step, onto) && each(step.span, onto.span, [&](std::int64_t a, std::int64_t b) {
             return span(a, b, uses_scratch(step));  // a scratch slot knows the order of pieces only
           });
  }

  // Two steps next to each other that move the runs of one set of pieces, which is mapped although its runs are not.
  bool maps_pair(const std::vector<Lane>& lanes, const std::vector<Lane>& onto, std::size_t lane, std::size_t step) {
    const Lane& a = lanes[lane];
    const Lane& b = onto[lane];
    const RankPair from{a.steps[step], a.steps[step + 1]};
    const RankPair to{b.steps[step], b.steps[step + 1]};
    const LoopShape shape(a);
    const auto number = static_cast<std::uint32_t>(step);
    if (shape.inside(number) != shape.inside(number + 1) || awaited(lanes, lane, number)) return false;
    if (!same_but_span(from.first, from.second) || !same_but_span(to.first, to.second)) return false;
    if (!maps_peers(from.first, to.first) || !maps_peers(from.second, to.second)) return false;
    const std::uint64_t period = period_of({&from.first, &from.second, &to.first, &to.second}, a.outer);
    const std::uint32_t inner_count = shape.inside(number) ? a.inner : 1;
    work_ += period * inner_count;
    if (work_ > kMostWork) return false;
    for (std::uint32_t outer = 0; outer < period; ++outer) {
      for (std::uint32_t inner = 0; inner < inner_count; ++inner) {
        const std::optional<Runs> runs = runs_of(from, outer, inner);
        const std::optional<Runs> mapped = runs_of(to, outer, inner);
        if (!runs || !mapped || runs->count() != mapped->count()) return false;
        if (runs->count() > 0) mapped_.push_back({*runs, *mapped});
      }
    }
    return true;
  }

  // What a pair moves; nothing if these are not all the runs of a set, in order: then both ends might divide it in
  // other ways.
  std::optional<Runs> runs_of(const RankPair& pair, std::uint32_t outer, std::uint32_t inner) const {
    Runs runs;
    for (const auto& [step, run] : {std::pair{&pair.first, &runs.first}, std::pair{&pair.second, &runs.second}}) {
      const std::int64_t number = step->span.at(outer, inner);
      if (number < 0 || number >= static_cast<std::int64_t>(geometry_.spans.size())) return std::nullopt;
      const bool runs_here = std::ranges::all_of(
          step->guards, [&](const Guard& guard) { return guard.value.at(outer, inner) == guard.equals; });
      *run = runs_here ? geometry_.spans[static_cast<std::size_t>(number)] : kNoRun;
    }
    const bool both = runs.first.count > 0 && runs.second.count > 0;
    if (both && runs.first.first + runs.first.count >= runs.second.first) return std::nullopt;
    split_ = split_ || both;
    return runs;
  }

  // related(number, number of the other) for all numbers that the two indices can have in the same iteration.
  template <class Related>
  bool each(const Index& index, const Index& onto, Related related) {
    if (index.by_outer == 0 && index.by_inner == 0 && onto.by_outer == 0 && onto.by_inner == 0) {
      return related(index.at(0, 0), onto.at(0, 0));
    }
    const std::uint32_t modulo = index.modulo;
    if (modulo == 0 || modulo != onto.modulo) return false;
    if (residue(index.by_outer, modulo) != residue(onto.by_outer, modulo)) return false;
    if (residue(index.by_inner, modulo) != residue(onto.by_inner, modulo)) return false;
    work_ += modulo;
    if (work_ > kMostWork) return false;
    std::int64_t other = residue(std::int64_t{onto.base} - index.base, modulo);
    for (std::int64_t number = 0; number < modulo; ++number) {
      if (!related(number * index.scale + index.offset, other * onto.scale + onto.offset)) return false;
      if (++other == modulo) other = 0;
    }
    return true;
  }

  // One piece says where it goes. Of a run of pieces only the whole is mapped, unless `in_order`: see runs_follow().
  bool span(std::int64_t number, std::int64_t onto, bool in_order) {
    const auto count = static_cast<std::int64_t>(geometry_.spans.size());
    if (number < 0 || number >= count || onto < 0 || onto >= count) return false;
    const auto known = static_cast<std::size_t>(number);
    if (span_[known] == static_cast<std::uint32_t>(onto) && !in_order) return true;
    const Span from = geometry_.spans[known];
    const Span to = geometry_.spans[static_cast<std::size_t>(onto)];
    if (from.count != to.count) return false;
    work_ += from.count;
    if (work_ > kMostWork) return false;
    span_[known] = static_cast<std::uint32_t>(onto);
    if (from.count > 1 && !in_order) {
      mapped_.push_back({{from, kNoRun}, {to, kNoRun}});
      return true;
    }
    for (std::uint32_t i = 0; i < from.count; ++i) {
      std::uint32_t& mapped = piece_[from.first + i];
      if (mapped == kUnknown) mapped = to.first + i;
      if (mapped != to.first + i) return false;
    }
    return true;
  }

  // Pieces that never go alone go in order.
  bool runs_follow() {
    for (const Mapped& set : mapped_) {
      for (std::uint32_t i = 0; i < set.from.count(); ++i) {
        std::uint32_t& piece = piece_[set.from.piece(i)];
        if (piece == kUnknown) piece = set.onto.piece(i);
        if (!set.onto.has(piece)) return false;
      }
    }
    return true;
  }

  bool every_piece_once() const {
    std::vector<bool> taken(piece_.size(), false);
    for (const std::uint32_t piece : piece_) {
      if (piece == kUnknown || taken[piece]) return false;
      taken[piece] = true;
    }
    return true;
  }

  // A block belongs to its rank, and its pieces keep their places.
  bool blocks_follow() const {
    if (!has_blocks(schedule_.header.collective)) return true;
    for (std::uint32_t piece = 0; piece < piece_.size(); ++piece) {
      const std::uint32_t onto = piece_[piece];
      if (geometry_.owner[onto] != (geometry_.owner[piece] + ranks_) % all_) return false;
      if (geometry_.place[onto] != geometry_.place[piece]) return false;
    }
    return true;
  }

  struct Mapped {
    Runs from;
    Runs onto;
  };

  const Schedule& schedule_;
  const Geometry& geometry_;
  std::uint32_t all_;
  std::uint32_t ranks_;
  std::uint64_t& work_;
  std::vector<std::uint32_t> piece_;
  std::vector<std::uint32_t> span_;  // what it was mapped to last
  std::vector<Mapped> mapped_;
  mutable bool split_ = false;
};

// No turn, one, two, …
std::vector<std::vector<std::uint32_t>> powers(const std::vector<std::uint32_t>& turn, std::uint32_t count) {
  std::vector<std::vector<std::uint32_t>> result(1, std::vector<std::uint32_t>(turn.size()));
  std::iota(result[0].begin(), result[0].end(), 0U);
  while (result.size() < count) {
    std::vector<std::uint32_t> further;
    further.reserve(turn.size());
    for (const std::uint32_t piece : result.back()) further.push_back(turn[piece]);
    result.push_back(std::move(further));
  }
  return result;
}

bool may_be_alike(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kAllGather;
}

}  // namespace

std::optional<Symmetry> symmetry_of(const Schedule& schedule, const Geometry& geometry) {
  const std::uint32_t all = schedule.header.ranks;
  if (!may_be_alike(schedule.header.collective)) return std::nullopt;
  std::uint64_t work = 0;
  for (std::uint32_t ranks = 1; ranks <= all / 2; ++ranks) {
    const std::uint32_t turns = all / ranks;
    if (all % ranks != 0 || std::uint64_t{turns} * geometry.pieces > kMostPieces) continue;
    RankTurn turn(schedule, geometry, ranks, work);
    if (!turn.holds()) continue;
    Symmetry found{.ranks = ranks, .turns = turns, .split = turn.split(), .piece = powers(turn.piece(), turns + 1)};
    if (found.piece.back() != found.piece.front()) continue;  // once around, a piece is not back
    found.piece.pop_back();
    return found;
  }
  return std::nullopt;
}

}  // namespace r2ccl
