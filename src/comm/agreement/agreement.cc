#include "comm/agreement/agreement.h"

#include <algorithm>
#include <utility>

namespace r2ccl {
namespace {

Bytes body_of(std::uint8_t kind, std::uint64_t number) {
  Bytes bytes;
  Writer out(bytes);
  out.put(kind);
  out.put(number);
  return bytes;
}

void put_nics(Bytes& bytes, std::span<const Permille> nics) {
  Writer out(bytes);
  for (const Permille one : nics) out.put(one);
}

// Exactly `count` of them and nothing else.
std::optional<std::vector<Permille>> get_nics(Reader& in, std::size_t count) {
  std::vector<Permille> nics;
  if (in.left() != count * sizeof(Permille)) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) nics.push_back(in.get<Permille>());
  const auto sane = [](Permille one) { return one <= kWhole || one == kUnseen; };
  return in.done() && std::ranges::all_of(nics, sane) ? std::optional(std::move(nics)) : std::nullopt;
}

}  // namespace

Agreement::Agreement(std::uint32_t rank, std::uint32_t ranks, const Placement& placement)
    : rank_(rank),
      ranks_(ranks),
      placement_(placement),
      reported_(placement.nics, kUnseen),
      map_(all_healthy(placement)),
      news_(rank == 0 ? ranks : 0, std::vector<Permille>(placement.nics, kUnseen)),
      newest_(map_) {}

void Agreement::send(std::uint32_t to, Bytes bytes) {
  out_.push_back({to, std::move(bytes)});
}

void Agreement::tell_all(const Bytes& bytes) {
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) send(rank, bytes);
}

std::vector<Agreement::Out> Agreement::take_out() {
  return std::exchange(out_, {});
}

void Agreement::report(std::span<const Permille> nics) {
  if (std::ranges::equal(nics, reported_)) return;
  reported_.assign(nics.begin(), nics.end());
  if (rank_ == 0) {
    news_[0] = reported_;
    dirty_ = true;
    return;
  }
  Bytes bytes = body_of(static_cast<std::uint8_t>(Kind::kNews), 0);
  put_nics(bytes, reported_);
  send(0, std::move(bytes));
}

bool Agreement::on_message(std::uint32_t from, ByteView bytes) {
  Reader in(bytes);
  const auto kind = static_cast<Kind>(in.get<std::uint8_t>());
  if (!in.ok() || from >= ranks_ || (rank_ != 0 && from != 0)) return false;
  switch (kind) {
    case Kind::kNews:
      return rank_ == 0 && on_news(from, in);
    case Kind::kAnswer:
      return rank_ == 0 && on_answer(from, in);
    case Kind::kPropose:
      return rank_ != 0 && on_propose(in);
    case Kind::kCommit:
      return rank_ != 0 && on_commit(in);
    case Kind::kWithdraw:
      return rank_ != 0 && on_withdraw(in);
  }
  return false;
}

// ---- members -------------------------------------------------------------------------------------------------

bool Agreement::on_propose(Reader& in) {
  HealthMap map{.version = in.get<std::uint64_t>(), .nic = {}};
  auto nics = get_nics(in, map_.nic.size());
  if (!nics || std::ranges::find(*nics, kUnseen) != nics->end()) return false;
  map.nic = std::move(*nics);
  held_ = std::move(map);
  Bytes answer = body_of(static_cast<std::uint8_t>(Kind::kAnswer), held_->version);
  Writer(answer).put(last_started_);
  send(0, std::move(answer));
  return true;
}

bool Agreement::on_commit(Reader& in) {
  const auto version = in.get<std::uint64_t>();
  const auto from = in.get<std::uint64_t>();
  if (!in.done()) return false;
  if (!held_ || held_->version != version) return false;
  next_.push_back({std::move(*held_), from});
  held_.reset();
  return true;
}

bool Agreement::on_withdraw(Reader& in) {
  const auto version = in.get<std::uint64_t>();
  if (!in.done()) return false;
  if (held_ && held_->version == version) held_.reset();
  return true;
}

bool Agreement::may_start(std::uint64_t number) {
  if (held_) return false;
  for (; !next_.empty() && number >= next_.front().from; next_.pop_front()) map_ = std::move(next_.front().map);
  return true;
}

// ---- the coordinator -----------------------------------------------------------------------------------------

bool Agreement::on_news(std::uint32_t from, Reader& in) {
  (void)in.get<std::uint64_t>();
  auto nics = get_nics(in, placement_.nics);
  if (!nics) return false;
  news_[from] = std::move(*nics);
  dirty_ = true;
  return true;
}

bool Agreement::on_answer(std::uint32_t from, Reader& in) {
  const auto version = in.get<std::uint64_t>();
  const auto started = in.get<std::uint64_t>();
  if (!in.done()) return false;
  if (round_ && round_->map.version == version && !round_->answered[from]) take_answer(from, started);
  return true;
}

void Agreement::take_answer(std::uint32_t from, std::uint64_t started) {
  round_->answered[from] = true;
  round_->highest = std::max(round_->highest, started);
  if (--round_->missing > 0) return;
  const std::uint64_t first = round_->highest + 1;
  Bytes commit = body_of(static_cast<std::uint8_t>(Kind::kCommit), round_->map.version);
  Writer(commit).put(first);
  tell_all(commit);
  newest_ = round_->map;
  next_.push_back({std::move(round_->map), first});
  held_.reset();
  round_.reset();
  dirty_ = true;  // what came meanwhile
}

// Of the ranks of a server that use a NIC, the one that gets most out of it has it right: the others' trouble lies at
// the other end. What nobody uses is taken to be well.
HealthMap Agreement::merged() const {
  HealthMap map = newest_;
  std::ranges::fill(map.nic, kUnseen);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    for (std::uint32_t nic = 0; nic < placement_.nics; ++nic) {
      Permille& known = map.nic[std::size_t{server_of(rank)} * placement_.nics + nic];
      const Permille seen = news_[rank][nic];
      if (seen != kUnseen) known = known == kUnseen ? seen : std::max(known, seen);
    }
  }
  std::ranges::replace(map.nic, kUnseen, kWhole);
  return map;
}

void Agreement::propose(Instant now) {
  HealthMap map = merged();
  if (map == newest_) return;
  map.version = newest_.version + 1;
  newest_.version = map.version;  // a withdrawn number is not used again
  round_ = Round{.map = map,
                 .answered = std::vector<bool>(ranks_, false),
                 .missing = ranks_,
                 .highest = 0,
                 .deadline = now + kPatience};
  Bytes bytes = body_of(static_cast<std::uint8_t>(Kind::kPropose), map.version);
  put_nics(bytes, map.nic);
  tell_all(bytes);
  held_ = map;
  take_answer(0, last_started_);
}

Turn Agreement::step(Instant now) {
  Turn turn;
  if (rank_ != 0) return turn;
  if (dirty_ && !round_) {
    dirty_ = false;
    HealthMap map = merged();
    map.version = newest_.version;
    if (map != newest_ && due_ == kNever) due_ = now + kGather;
  }
  if (round_ && now >= round_->deadline) {
    tell_all(body_of(static_cast<std::uint8_t>(Kind::kWithdraw), round_->map.version));
    held_.reset();
    round_.reset();
    due_ = now + kRetry;
    turn.moved = true;
  }
  if (!round_ && now >= due_) {
    due_ = kNever;
    propose(now);
    turn.moved = true;
  }
  if (round_) turn.merge({false, round_->deadline});
  turn.merge({false, due_});
  return turn;
}

}  // namespace r2ccl
