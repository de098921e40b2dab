#pragma once
// Agrees on health maps: all ranks of a communicator use map v from collective number N on. Rank 0 coordinates.
//
//   any rank ── NEWS(its server's NICs) ─▶ rank 0        merges; if the map changes and no round runs, after kGather:
//   rank 0 ── PROPOSE(v, map) ─▶ all                    each stops starting collectives and answers
//   all ── ANSWER(v, last started) ─▶ rank 0
//   rank 0 ── COMMIT(v, N = max + 1) ─▶ all             each goes on: below N with the old map, from N on with the new
//   rank 0 ── WITHDRAW(v) ─▶ all                        if an answer is missing after kPatience; next try after kRetry
//
// Role       A state machine without I/O: messages in, messages out. They travel on a session stream between rank 0 and
//            each rank, so they are neither lost nor repeated nor reordered.
// Threads    The communicator's.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "comm/agreement/health_map.h"

namespace r2ccl {

class Agreement final {
 public:
  static constexpr Duration kGather = 5ms;
  static constexpr Duration kPatience = 1s;
  static constexpr Duration kRetry = 2s;

  struct Out {
    std::uint32_t to = 0;  // rank
    Bytes bytes;
  };

  Agreement(std::uint32_t rank, std::uint32_t ranks, const Placement& placement);

  // What this rank sees of its own server's NICs, whenever it looked; kUnseen for those it does not use.
  void report(std::span<const Permille> nics);
  // False: it can not be read; the sender is not one of us.
  bool on_message(std::uint32_t from, ByteView bytes);
  Turn step(Instant now);
  std::vector<Out> take_out();

  // Collective `number` may begin, and which map it uses. Numbers are asked for in order, until true.
  bool may_start(std::uint64_t number);
  void started(std::uint64_t number) { last_started_ = number; }
  const HealthMap& map() const { return map_; }  // of the collective that may start
  // The map that was agreed on last; perhaps it is that of a later collective.
  const HealthMap& agreed() const { return next_.empty() ? map_ : next_.back().map; }
  bool holding() const { return held_.has_value(); }

 private:
  enum class Kind : std::uint8_t { kNews = 1, kPropose, kAnswer, kCommit, kWithdraw };
  struct Round {
    HealthMap map;
    std::vector<bool> answered;
    std::uint32_t missing = 0;
    std::uint64_t highest = 0;  // started anywhere
    Instant deadline{};
  };
  struct Next {
    HealthMap map;
    std::uint64_t from = 0;
  };

  void send(std::uint32_t to, Bytes bytes);
  void tell_all(const Bytes& bytes);
  bool on_news(std::uint32_t from, Reader& in);
  bool on_propose(Reader& in);
  bool on_answer(std::uint32_t from, Reader& in);
  bool on_commit(Reader& in);
  bool on_withdraw(Reader& in);
  void take_answer(std::uint32_t from, std::uint64_t started);
  void propose(Instant now);
  HealthMap merged() const;
  std::uint32_t server_of(std::uint32_t rank) const { return rank / placement_.gpus; }

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const Placement placement_;
  std::vector<Out> out_;
  std::vector<Permille> reported_;  // by this rank, last

  HealthMap map_;
  std::deque<Next> next_;           // agreed, not in use yet; oldest first
  std::optional<HealthMap> held_;   // proposed, not decided
  std::uint64_t last_started_ = 0;  // collectives are numbered from 1

  // The coordinator's.
  std::vector<std::vector<Permille>> news_;  // [rank]
  HealthMap newest_;                         // last committed
  std::optional<Round> round_;
  Instant due_ = kNever;  // of the next round
  bool dirty_ = false;    // news since the last look
};

}  // namespace r2ccl
