#pragma once
// The connections of a replay: where their messages are and which lanes sleep on them. One takes half a cache line,
// because a large cluster has hundreds of thousands and every message touches one from both ends.
//
// Messages of a connection use its slots in turn. A slot holds the arrival of a message under way and, once it was
// received, the time its receipt is back at the sender.
//
// Where a message has its arrival as soon as it is sent, senders sleep on a full connection only and receivers on an
// empty one only: they share a list. In a deferred network (message.h) both may sleep.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/cluster/flat_lanes.h"

namespace r2ccl::sim {

// More slots than this are the same as this many: no schedule has so many messages of one connection under way.
inline constexpr std::uint32_t kMostSlots = 4096;

struct alignas(32) ConnectionState {
  static constexpr std::uint32_t kSlotsInside = 3;  // more are kept elsewhere
  std::array<double, kSlotsInside> at_s = {};
  std::uint32_t asleep = kNoIndex;  // lanes
  std::uint16_t receive_at = 0;     // slot
  std::uint16_t under_way = 0;      // sent and not received
};
static_assert(sizeof(ConnectionState) == 32);

template <bool kDeferred>
class Connections final {
 public:
  Connections(const FlatLanes& flat, std::uint32_t slots)
      : slots_(std::clamp(slots, 1U, kMostSlots)), all_(flat.connections.size()) {
    if (kDeferred) deferred_.resize(all_.size());
    if (slots_ > ConnectionState::kSlotsInside) at_s_.resize(all_.size() * slots_);
    const auto awaited = [](const FlatConnection& c) { return c.awaited; };
    if (std::any_of(flat.connections.begin(), flat.connections.end(), awaited))
      ends_.resize(all_.size() * slots_, kNoIndex);
  }

  ConnectionState& operator[](std::uint32_t number) { return all_[number]; }
  void prefetch(std::uint32_t number) const {
    if (number != kNoIndex) __builtin_prefetch(&all_[number], 1);
  }

  bool full(const ConnectionState& c) const { return c.under_way == slots_; }
  // Of the messages under way, those with an arrival time.
  std::uint16_t timed(const ConnectionState& c) const {
    if constexpr (kDeferred) return deferred_[place(c)].timed;
    return c.under_way;
  }
  std::uint32_t& senders_asleep(ConnectionState& c) { return c.asleep; }
  std::uint32_t& receivers_asleep(ConnectionState& c) {
    if constexpr (kDeferred) return deferred_[place(c)].asleep;
    return c.asleep;
  }

  // The slot `ahead` messages behind the first that is under way.
  std::uint32_t slot(const ConnectionState& c, std::uint32_t ahead) const {
    const std::uint32_t at = std::uint32_t{c.receive_at} + ahead;
    return at < slots_ ? at : at - slots_;
  }
  double& at_s(ConnectionState& c, std::uint32_t slot) {
    return slots_ <= ConnectionState::kSlotsInside ? c.at_s[slot] : at_s_[place(c) * slots_ + slot];
  }

  void send(ConnectionState& c) { ++c.under_way; }
  // The first message under way that had none has its arrival time now.
  void arrive(ConnectionState& c) {
    if constexpr (kDeferred) ++deferred_[place(c)].timed;
  }
  void receive(ConnectionState& c) {
    c.receive_at = static_cast<std::uint16_t>(slot(c, 1));
    --c.under_way;
    if constexpr (kDeferred) --deferred_[place(c)].timed;
  }

  // The end that the receipt of the slot's message completes (kNoIndex: none). Only of awaited ones.
  std::uint32_t& end(const ConnectionState& c, std::uint32_t slot) { return ends_[place(c) * slots_ + slot]; }

 private:
  struct Deferred {
    std::uint32_t asleep = kNoIndex;  // receivers
    std::uint16_t timed = 0;
  };
  std::size_t place(const ConnectionState& c) const { return static_cast<std::size_t>(&c - all_.data()); }

  std::uint32_t slots_;
  std::vector<ConnectionState> all_;
  std::vector<Deferred> deferred_;  // [connection]
  std::vector<double> at_s_;        // [connection * slots + slot], if there are many slots
  std::vector<std::uint32_t> ends_;
};

}  // namespace r2ccl::sim
