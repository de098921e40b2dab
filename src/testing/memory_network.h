#pragma once
// For tests: executions of all ranks of a schedule over a network in memory that does everything a courier may do, in
// an order drawn from a seed: it delivers late, in parts and out of order, reads a message when it is sent or as late
// as it may, completes receives and sends at different times, and is busy now and then. Keeps watch over user memory.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/assert.h"
#include "executor/execution.h"

namespace r2ccl::example {

// int32 and uint64 only, and sums that wrap.
class TinyDevice final : public Device {
 public:
  void copy(std::byte* destination, const std::byte* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }
  void reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
              DataType type, ReduceKind) const override {
    if (type == DataType::kInt32) return add<std::uint32_t>(destination, first, second, count);
    R2CCL_ASSERT(type == DataType::kUint64, "a type that the tiny device does not know");
    add<std::uint64_t>(destination, first, second, count);
  }
  void scale(std::byte*, const std::byte*, std::uint64_t, DataType, const std::byte*) const override {}
  void divide(std::byte*, std::uint64_t, DataType, std::uint64_t) const override {}

 private:
  template <class T>
  static void add(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      T a = 0;
      T b = 0;
      std::memcpy(&a, first + i * sizeof(T), sizeof a);
      std::memcpy(&b, second + i * sizeof(T), sizeof b);
      a += b;
      std::memcpy(destination + i * sizeof(T), &a, sizeof a);
    }
  }
};

class MemoryNetwork {
 public:
  MemoryNetwork(std::uint32_t ranks, std::uint64_t seed, bool unruly = true) : random_(seed), unruly_(unruly) {
    for (std::uint32_t r = 0; r < ranks; ++r) ends_.push_back(std::make_unique<End>(*this, r));
    open_.assign(ranks, 0);
  }

  Courier& courier(std::uint32_t rank) { return *ends_[rank]; }
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  // What a rank gave and was not told to be done.
  std::uint32_t open(std::uint32_t rank) const { return open_[rank]; }
  std::uint64_t messages() const { return messages_; }
  const std::string& wrong() const { return wrong_; }

  struct Completion {
    std::uint32_t rank = 0;
    std::uint64_t token = 0;
  };

  // Something happens, if anything can. A completion is to be told at once.
  bool act(std::vector<Completion>& told) {
    if (!done_.empty() && (pairs_.empty() || below(2) == 0)) {
      const std::size_t i = unruly_ ? below(done_.size()) : 0;
      told.push_back(done_[i]);
      --open_[done_[i].rank];
      done_[i] = done_.back();
      done_.pop_back();
      return true;
    }
    if (pairs_.empty()) return false;
    const std::size_t i = unruly_ ? below(pairs_.size()) : 0;
    if (!deliver(pairs_[i])) return true;
    pairs_[i] = std::move(pairs_.back());
    pairs_.pop_back();
    return true;
  }

 private:
  class End final : public Courier {
   public:
    End(MemoryNetwork& network, std::uint32_t rank) : network_(network), rank_(rank) {}
    Status send(std::uint32_t to, std::uint32_t channel, std::optional<NicId> /*nic*/, MemoryRef memory,
                std::uint64_t token) override {
      return network_.take(rank_, {rank_, to, channel}, true, memory, token);
    }
    Status receive(std::uint32_t from, std::uint32_t channel, MemoryRef memory, std::uint64_t token) override {
      return network_.take(rank_, {from, rank_, channel}, false, memory, token);
    }

   private:
    MemoryNetwork& network_;
    std::uint32_t rank_;
  };
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // from, to, channel
  struct Half {
    MemoryRef memory;
    Completion completion;
    std::vector<std::byte> early;  // read when it was sent
  };
  struct Pair {
    Half send;
    Half receive;
    std::size_t delivered = 0;
  };
  struct Connection {
    std::deque<Half> sends;
    std::deque<Half> receives;
  };

  Status take(std::uint32_t rank, const Key& key, bool sends, MemoryRef memory, std::uint64_t token) {
    if (unruly_ && below(8) == 0) return fail(Fault::kBusy, "not now");
    if (memory.length == 0) wrong_ = "an empty message";
    Half half{memory, {rank, token}, {}};
    if (sends && unruly_ && below(2) == 0) {
      const std::byte* from = memory.region->host() + memory.offset;
      half.early.assign(from, from + memory.length);
    }
    ++open_[rank];
    Connection& c = connections_[key];
    (sends ? c.sends : c.receives).push_back(std::move(half));
    if (!c.sends.empty() && !c.receives.empty()) {
      ++messages_;
      if (c.sends[0].memory.length != c.receives[0].memory.length) {
        wrong_ = fmt::format("{} to {}: {} bytes meet a receive of {}", std::get<0>(key), std::get<1>(key),
                             c.sends[0].memory.length, c.receives[0].memory.length);
        return {};
      }
      pairs_.push_back({std::move(c.sends[0]), std::move(c.receives[0])});
      c.sends.pop_front();
      c.receives.pop_front();
    }
    return {};
  }

  // Sometimes a part only. True: it is all there.
  bool deliver(Pair& pair) {
    const MemoryRef& from = pair.send.memory;
    const std::size_t left = from.length - pair.delivered;
    const std::size_t now = unruly_ && below(4) == 0 ? below(left + 1) : left;
    const std::byte* source = pair.send.early.empty() ? from.region->host() + from.offset : pair.send.early.data();
    std::byte* to = pair.receive.memory.region->host() + pair.receive.memory.offset;
    std::memcpy(to + pair.delivered, source + pair.delivered, now);
    pair.delivered += now;
    if (pair.delivered < from.length) return false;
    done_.push_back(pair.receive.completion);
    done_.push_back(pair.send.completion);
    return true;
  }

  std::mt19937_64 random_;
  bool unruly_;
  std::vector<std::unique_ptr<End>> ends_;
  std::map<Key, Connection> connections_;
  std::vector<Pair> pairs_;  // send and receive have met
  std::vector<Completion> done_;
  std::vector<std::uint32_t> open_;
  std::uint64_t messages_ = 0;
  std::string wrong_;
};

// Steps executions and the network in random turns until all are over. What is wrong, or nothing.
inline std::string drive(MemoryNetwork& network, std::vector<std::unique_ptr<Execution>>& executions) {
  std::vector<MemoryNetwork::Completion> told;
  std::size_t left = executions.size();
  std::vector<std::uint8_t> was_over(executions.size(), 0);
  const auto look = [&](std::uint32_t rank) {
    if (was_over[rank] != 0 || !executions[rank]->over()) return true;
    was_over[rank] = 1;
    --left;
    return executions[rank]->result() && network.open(rank) == 0;
  };
  for (std::uint32_t r = 0; r < executions.size(); ++r) {
    if (!look(r)) return fmt::format("rank {} is over too early", r);
  }
  std::uint32_t idle = 0;
  while (left > 0) {
    if (!network.wrong().empty()) return network.wrong();
    const auto rank = static_cast<std::uint32_t>(network.below(executions.size()));
    bool moved = executions[rank]->step();
    if (!look(rank)) return fmt::format("rank {} is over too early", rank);
    for (std::uint64_t turns = network.below(6); turns > 0; --turns) {
      moved = network.act(told) || moved;
      for (const MemoryNetwork::Completion& c : told) {
        executions[c.rank]->on_completion(c.token, {});
        if (!look(c.rank)) return fmt::format("rank {} is over too early", c.rank);
      }
      told.clear();
    }
    idle = moved ? 0 : idle + 1;
    if (idle > 400 + 40 * executions.size()) return "nothing moves any more";
  }
  return network.wrong();
}

}  // namespace r2ccl::example
