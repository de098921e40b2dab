// Connections between ranks and the messages on them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedule/check/check_run.h"

namespace r2ccl {

// Most peers depend on the inner iteration only: they are looked up once.
void CheckRun::plan_peers(LaneState& lane) {
  for (std::uint32_t i = 0; i < lane.lane->steps.size(); ++i) {
    const Step& s = lane.lane->steps[i];
    const std::uint64_t count = lane.shape.inside(i) ? lane.shape.inner_count : 1;
    const bool moves = s.from.by_outer != 0 || s.to.by_outer != 0 || lane.peers.size() + 2 * count >= kNone;
    lane.first_peer.push_back(moves ? kNone : static_cast<std::uint32_t>(lane.peers.size()));
    if (!moves) lane.peers.resize(lane.peers.size() + 2 * count, kNone);
  }
}

bool CheckRun::resolve_peer(LaneState& lane, bool incoming, std::uint32_t& connection) {
  const std::uint32_t first = lane.first_peer[lane.cursor.step_number()];
  std::uint32_t* known =
      first == kNone ? nullptr : &lane.peers[first + 2 * std::size_t{lane.cursor.inner()} + (incoming ? 0 : 1)];
  if (known != nullptr && *known != kNone) {
    connection = *known;
    return true;
  }
  const std::int64_t peer = incoming ? lane.cursor.from() : lane.cursor.to();
  if (peer < 0 || peer >= header_.ranks)
    return refuse(lane, fmt::format("rank {} is not one of {}", peer, header_.ranks));
  const auto rank = static_cast<std::uint32_t>(peer);
  if (rank == lane.rank) return refuse(lane, "a rank has no connection to itself");
  const Step& step = lane.cursor.step();
  connection =
      incoming ? connection_of(rank, lane.rank, step.channel_in) : connection_of(lane.rank, rank, step.channel_out);
  if (known != nullptr) *known = connection;
  return true;
}

std::uint32_t CheckRun::connection_of(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
  std::uint32_t turn = 0;
  if (symmetry_ != nullptr) {  // one of all that turn into each other: the one whose sender is run
    const std::uint32_t back = symmetry_->turn_of(from) * ranks_;
    from -= back;
    to = (to + header_.ranks - back) % header_.ranks;
    turn = (symmetry_->turns - symmetry_->turn_of(to)) % symmetry_->turns;
  }
  // Never 0, since a rank does not send to itself.
  const std::uint64_t key = std::uint64_t{from} << 48 | std::uint64_t{to} << 32 | channel;
  const auto slot_of = [this](std::uint64_t k) {
    const std::size_t mask = connection_keys_.size() - 1;
    std::size_t at = (k ^ k >> 29) * 0x9e3779b97f4a7c15 >> 20 & mask;
    while (connection_keys_[at] != 0 && connection_keys_[at] != k) at = (at + 1) & mask;
    return at;
  };
  std::size_t at = slot_of(key);
  if (connection_keys_[at] == key) return connection_values_[at];
  if (connections_.size() * 2 >= connection_keys_.size()) {
    const auto keys = std::exchange(connection_keys_, std::vector<std::uint64_t>(connection_keys_.size() * 2, 0));
    const auto values = std::exchange(connection_values_, std::vector<std::uint32_t>(connection_keys_.size(), 0));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == 0) continue;
      const std::size_t to_slot = slot_of(keys[i]);
      connection_keys_[to_slot] = keys[i];
      connection_values_[to_slot] = values[i];
    }
    at = slot_of(key);
  }
  connection_keys_[at] = key;
  connection_values_[at] = static_cast<std::uint32_t>(connections_.size());
  const bool other = std::ranges::binary_search(channels_with_slots_, channel);
  Connection& created = connections_.emplace_back();
  created.slots = other ? their_slots_ : header_.slots;
  created.turn = turn;
  return connection_values_[at];
}

bool CheckRun::ordered(LaneState& lane, std::uint32_t last_lane, std::uint32_t last_event, const char* what) {
  if (last_lane == kNone || happened_before(lane, lanes_[last_lane].number, last_event)) return true;
  return refuse(lane, fmt::format("{} on the same channel as {}, in no certain order", what,
                                  where(lane, lanes_[last_lane].number, last_event)));
}

CheckRun::Outcome CheckRun::await_connections(LaneState& lane) {
  const std::uint32_t id = id_of(lane);
  if (lane.now.in != kNone) {
    Connection& c = connections_[lane.now.in];
    if (!ordered(lane, c.recv_lane, c.recv_event, "receives")) return Outcome::kRefused;
    if (c.head == kNone) {
      if (c.blocked_receiver != kNone && c.blocked_receiver != id) {
        const LaneState& other = lanes_[c.blocked_receiver];
        ordered(lane, c.blocked_receiver, other.events(), "receives");
        return Outcome::kRefused;
      }
      c.blocked_receiver = id;
      lane.blocked = Blocked::kMessage;
      return Outcome::kBlocked;
    }
  }
  if (lane.now.out != kNone) {
    Connection& c = connections_[lane.now.out];
    if (!ordered(lane, c.send_lane, c.send_event, "sends")) return Outcome::kRefused;
    if (c.count >= c.slots) {
      if (c.blocked_sender != kNone && c.blocked_sender != id) {
        const LaneState& other = lanes_[c.blocked_sender];
        ordered(lane, c.blocked_sender, other.events(), "sends");
        return Outcome::kRefused;
      }
      c.blocked_sender = id;
      lane.blocked = Blocked::kSlot;
      return Outcome::kBlocked;
    }
  }
  return Outcome::kRan;
}

bool CheckRun::take_message(LaneState& lane) {
  const Connection& c = connections_[lane.now.in];
  const Message& m = messages_[c.head];
  const Span here = lane.now.span;
  if (c.turn != 0) return turn_message(lane, m, c.turn);
  const bool alike = header_.collective == Collective::kAllToAll ? m.span.count == here.count : m.span == here;
  if (!alike || m.segment != lane.now.segment) {
    const std::uint32_t there = geometry_.cell(m.span.first, m.segment);
    return refuse(lane,
                  fmt::format("receives {} ({} pieces), but gets {} ({} pieces) from {}",
                              cell_text(geometry_.cell(here.first, lane.now.segment)), here.count, cell_text(there),
                              m.span.count, where(lanes_[m.sender], lanes_[m.sender].positions[m.event])));
  }
  incoming_[0] = m.value;
  if (here.count > 1) std::copy_n(values_.begin() + m.values, here.count, incoming_.begin());
  return true;
}

// What the sender has sent, from what the rank that was run for it has.
bool CheckRun::turn_message(LaneState& lane, const Message& m, std::uint32_t turn) {
  const Span here = lane.now.span;
  bool alike = m.span.count == here.count && m.segment == lane.now.segment;
  SetId last = kNothing;  // neighbours mostly hold the same sets
  SetId last_turned = kNothing;
  for (std::uint32_t i = 0; i < m.span.count && alike; ++i) {
    const Value value = m.span.count > 1 ? values_[m.values + i] : m.value;
    const std::uint32_t piece = symmetry_->piece[turn][m.span.first + i];
    alike = value.origin == geometry_.cell(m.span.first + i, m.segment) && piece - here.first < here.count;
    if (!alike) break;
    if (value.set != last) {
      last = value.set;
      last_turned = sets_.turned(last, turn * ranks_);
    }
    incoming_[piece - here.first] = {geometry_.cell(piece, m.segment), last_turned};
  }
  return alike || refuse(lane, "receives something else than it gets");
}

void CheckRun::drop_message(LaneState& lane) {
  Connection& c = connections_[lane.now.in];
  const std::uint32_t number = c.head;
  Message& m = messages_[number];
  c.head = m.next;
  if (c.head == kNone) c.tail = kNone;
  --c.count;
  c.recv_lane = id_of(lane);
  c.recv_event = lane.events();
  if (m.span.count > 1) free_values_[m.span.count].push_back(m.values);
  LaneState& sender = lanes_[m.sender];
  sender.received[m.event] = 1;
  if (!sender.waiters.empty()) notify_receipt(sender, m.event);
  if (c.blocked_sender != kNone) wake(std::exchange(c.blocked_sender, kNone));
  m.next = free_message_;
  free_message_ = number;
}

std::uint32_t CheckRun::store_values(std::uint32_t count) {
  std::vector<std::uint32_t>& free = free_values_[count];
  if (!free.empty()) {
    const std::uint32_t at = free.back();
    free.pop_back();
    return at;
  }
  const std::size_t at = values_.size();
  values_.resize(at + count);
  return static_cast<std::uint32_t>(at);
}

void CheckRun::post_message(LaneState& lane) {
  count_own(lane, data_.data(), lane.now.span.count);
  std::uint32_t values = 0;
  if (lane.now.span.count > 1) {
    values = store_values(lane.now.span.count);
    std::copy_n(data_.begin(), lane.now.span.count, values_.begin() + values);
  }
  const Message m{.sender = id_of(lane),
                  .event = lane.events(),
                  .span = lane.now.span,
                  .segment = lane.now.segment,
                  .values = values,
                  .value = data_[0]};
  std::uint32_t number = free_message_;
  if (number != kNone) {
    free_message_ = messages_[number].next;
    messages_[number] = m;
  } else {
    number = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(m);
  }
  Connection& c = connections_[lane.now.out];
  (c.tail == kNone ? c.head : messages_[c.tail].next) = number;
  c.tail = number;
  ++c.count;
  ++sent_;
  c.send_lane = id_of(lane);
  c.send_event = lane.events();
  if (c.blocked_receiver != kNone) wake(std::exchange(c.blocked_receiver, kNone));
}

}  // namespace r2ccl
