#pragma once
// The connections of a replay: where their messages are and which lanes sleep on them. One cache line each, because a large
// cluster has hundreds of thousands and every message touches one from both ends.
//
// Messages of a connection use its slots in turn. A slot holds the arrival of a message under way and, once it was received, the
// time its receipt is back at the sender.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/cluster/flat_lanes.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

// More slots than this are the same as this many: no schedule has so many messages of one connection under way.
inline constexpr std::uint32_t kMostSlots = 4096;

struct alignas(64) ConnectionState {
  static constexpr std::uint32_t kSlotsInside = 3;  // more are kept elsewhere
  std::uint32_t to = 0;                             // rank
  bool inside = false;                              // a server
  std::uint16_t receive_at = 0;                     // slot
  std::uint16_t under_way = 0;                      // sent and not received
  std::uint16_t timed = 0;                          // of those, the ones with an arrival time
  std::uint32_t sender_asleep = kNoIndex;           // lanes
  std::uint32_t receiver_asleep = kNoIndex;
  std::array<std::uint32_t, kSlotsInside> end = {kNoIndex, kNoIndex, kNoIndex};
  std::array<double, kSlotsInside> at_s = {};
};
static_assert(sizeof(ConnectionState) == 64);

class Connections final {
 public:
  Connections(const FlatLanes& flat, const Cluster& cluster, std::uint32_t slots)
      : slots_(std::clamp(slots, 1U, kMostSlots)) {
    all_.reserve(flat.connections.size());
    for (const FlatConnection& c : flat.connections) {
      all_.emplace_back();
      all_.back().to = c.to;
      all_.back().inside = c.from / cluster.gpus == c.to / cluster.gpus;
    }
    if (slots_ <= ConnectionState::kSlotsInside) return;
    at_s_.resize(all_.size() * slots_);
    if (flat.sends_awaited) ends_.resize(at_s_.size(), kNoIndex);
    with_ends_ = flat.sends_awaited;
  }

  ConnectionState& operator[](std::uint32_t number) { return all_[number]; }
  const ConnectionState& operator[](std::uint32_t number) const { return all_[number]; }
  void prefetch(std::uint32_t number) const {
    if (number != kNoIndex) __builtin_prefetch(&all_[number], 1);
  }

  bool full(const ConnectionState& c) const { return c.under_way == slots_; }
  // The slot `ahead` messages behind the first that is under way.
  std::uint32_t slot(const ConnectionState& c, std::uint32_t ahead) const {
    const std::uint32_t at = std::uint32_t{c.receive_at} + ahead;
    return at < slots_ ? at : at - slots_;
  }
  double& at_s(ConnectionState& c, std::uint32_t slot) {
    return slots_ <= ConnectionState::kSlotsInside ? c.at_s[slot] : at_s_[place(c) + slot];
  }
  // The end that the receipt of the slot's message completes (kNoIndex: none).
  void set_end(ConnectionState& c, std::uint32_t slot, std::uint32_t end) {
    (slots_ <= ConnectionState::kSlotsInside ? c.end[slot] : ends_[place(c) + slot]) = end;
  }
  std::uint32_t end(const ConnectionState& c, std::uint32_t slot) const {
    if (slots_ <= ConnectionState::kSlotsInside) return c.end[slot];
    return with_ends_ ? ends_[place(c) + slot] : kNoIndex;
  }

 private:
  std::size_t place(const ConnectionState& c) const { return static_cast<std::size_t>(&c - all_.data()) * slots_; }

  std::uint32_t slots_;
  bool with_ends_ = false;
  std::vector<ConnectionState> all_;
  std::vector<double> at_s_;  // [connection * slots + slot], if there are many slots
  std::vector<std::uint32_t> ends_;
};

}  // namespace r2ccl::sim
