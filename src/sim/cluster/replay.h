#pragma once
// Runs the lanes of all ranks against a network and gives every step its time.
//
// Times are max-plus: a step starts when its lane, its waits, its message and a free slot of its outgoing connection are there. So
// only where messages compete for a port does the order matter in which they are handed to the network. They are handed over in
// the order of time, up to a quarter of a message's length: a message that is not ready waits in a calendar, one that is ready waits
// in the queue of its port, first come, first served. All other steps run as soon as what they need has a time; until then their
// lane is asleep.
//
// A network is a class with
//   static constexpr bool kDeferred;
//   double send(const Message&);                   the arrival time, or infinity: no route, stop
//   std::uint32_t queues() const;                  outgoing ports
//   std::uint32_t queue_of(const Message&) const;
//   double free_s(const Message&) const;           when its port can take it
//   double leaves_s(const Message&, double free_s) const;  when it would leave if it were sent now
// or, if kDeferred, one that takes messages at any time and tells their arrivals later:
//   void send(const Message&);
//   bool settle(std::vector<Arrival>& arrived)     runs until messages arrive; false if nothing is under way

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "sim/cluster/calendar.h"
#include "sim/cluster/flat_lanes.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Message {
  std::uint32_t connection = 0;
  std::uint32_t from = 0;  // ranks
  std::uint32_t to = 0;
  std::int32_t rail = kAnyRail;
  std::uint32_t span = 0;
  std::uint32_t segment = 0;
  double ready_s = 0;
  double bytes = 0;
  double now_s = 0;  // of the hand-over; never falls, up to the calendar's grain
};

struct Arrival {
  std::uint32_t connection = 0;
  double at_s = 0;
};

// More slots than this are the same as this many: no schedule has so many messages of one connection under way.
inline constexpr std::uint32_t kMostSlots = 4096;

template <class Network>
class Replay final {
 public:
  // All must outlive the object.
  Replay(const Schedule& schedule, const FlatLanes& flat, const Cluster& cluster, Network& network)
      : schedule_(schedule),
        flat_(flat),
        network_(network),
        slots_(std::clamp(schedule.frame.slots, 1U, kMostSlots)),
        calendar_(0, 1) {
    for (const FlatConnection& c : flat.connections) {
      const bool inside = c.from / cluster.gpus == c.to / cluster.gpus;
      connections_.push_back(
          {.from = c.from, .to = c.to, .receipt_s = inside ? cluster.intra_alpha_s : cluster.alpha_s});
    }
    entries_.resize(flat.connections.size() * slots_);
    if (flat.sends_awaited) ends_of_entry_.resize(entries_.size());
    for (const std::uint32_t iterations : flat.iterations_of_end) ends_.push_back({.left = iterations});
    cursors_.resize(flat.lanes.size());
    if constexpr (!Network::kDeferred) {
      queues_.resize(network.queues());
      calendar_ = Calendar(cursors_.size() + queues_.size(), grain_s(flat, cluster));
    }
    for (std::uint32_t lane = 0; lane < flat.lanes.size(); ++lane) {
      enter(lane);
      if (!done(lane)) work_.push_back(lane);
    }
  }

  // The time at which the last lane ends.
  Result<double> run() {
    for (bool more = true; more;) {
      advance_all();
      if constexpr (Network::kDeferred) {
        more = settle();
      } else {
        more = hand_over();
      }
    }
    double end_s = 0;
    for (std::uint32_t lane = 0; lane < cursors_.size(); ++lane) {
      if (!done(lane)) return stuck(lane);
      end_s = std::max(end_s, cursors_[lane].time_s);
    }
    return end_s;
  }

 private:
  struct Cursor {
    double time_s = 0;
    double ready_s = 0;     // of the message it waits to hand over
    std::uint32_t at = 0;   // in FlatLanes::steps
    std::uint32_t end = 0;  // of the phase
    std::uint32_t outer = 0;
    std::uint32_t next_asleep = kNoIndex;
  };
  // Entries of a connection form a ring: an entry holds the arrival of a message under way and, once it was received, the time its
  // receipt is back at the sender.
  struct Connection {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    double receipt_s = 0;
    std::uint16_t send_at = 0;
    std::uint16_t receive_at = 0;
    std::uint16_t under_way = 0;  // sent and not received
    std::uint16_t timed = 0;      // of those, the ones with an arrival time
    std::uint32_t sender_asleep = kNoIndex;
    std::uint32_t receiver_asleep = kNoIndex;
  };
  struct End {
    double time_s = 0;
    std::uint32_t left = 1;  // iterations that are not over
    std::uint32_t asleep = kNoIndex;
  };
  struct EndNumbers {
    std::uint32_t of_all = kNoIndex;
    std::uint32_t of_each = kNoIndex;
  };

  std::uint16_t after(std::uint32_t slot) const {
    return static_cast<std::uint16_t>(slot + 1 == slots_ ? 0 : slot + 1);
  }
  bool done(std::uint32_t lane) const { return cursors_[lane].outer >= flat_.lanes[lane].outer; }
  void wake_all(std::uint32_t& head) {
    while (head != kNoIndex) {
      work_.push_back(head);
      head = std::exchange(cursors_[head].next_asleep, kNoIndex);
    }
  }
  bool sleep(std::uint32_t lane, std::uint32_t& head) {
    cursors_[lane].next_asleep = std::exchange(head, lane);
    return false;
  }

  void advance_all() {
    for (std::size_t i = 0; i < work_.size(); ++i) advance(work_[i]);
    work_.clear();
  }

  // Runs steps until one has to wait for its turn to send, for something without a time, or none is left.
  void advance(std::uint32_t lane) {
    Cursor& cursor = cursors_[lane];
    while (cursor.outer < flat_.lanes[lane].outer) {
      const FlatStep& step = flat_.steps[cursor.at];
      double start_s = cursor.time_s;
      if (!can_start(lane, step, start_s)) return;
      if constexpr (!Network::kDeferred) {
        if (step.out != kNoIndex) {
          cursor.ready_s = start_s;
          if (calendar_.later(start_s)) return calendar_.add(lane, start_s);
          return line_up(lane, step);
        }
      }
      const Message m = step.out != kNoIndex ? message(lane, step, start_s) : Message{};
      run_step(lane, step, start_s, &m);
    }
  }

  struct Queue {
    std::uint32_t first = kNoIndex;  // lanes
    std::uint32_t last = kNoIndex;
    bool in_calendar = false;
  };

  void line_up(std::uint32_t lane, const FlatStep& step) {
    const Message m = message(lane, step, cursors_[lane].ready_s);
    Queue& queue = queues_[network_.queue_of(m)];
    (queue.first == kNoIndex ? queue.first : cursors_[queue.last].next_asleep) = lane;
    queue.last = lane;
    if (!queue.in_calendar) call(queue, network_.free_s(m));
  }

  // The first of the queue is to be looked at when its port is free.
  void call(Queue& queue, double free_s) {
    queue.in_calendar = true;
    calendar_.add(static_cast<std::uint32_t>(cursors_.size() + static_cast<std::size_t>(&queue - queues_.data())),
                  free_s);
  }

  // The next in time: a message that is ready now, or a port that is free. False: there is none, or it has no route.
  bool hand_over() {
    const std::uint32_t number = calendar_.take();
    if (number == kNoIndex) return false;
    if (number < cursors_.size()) {
      line_up(number, flat_.steps[cursors_[number].at]);
      return true;
    }
    Queue& queue = queues_[number - cursors_.size()];
    queue.in_calendar = false;
    const std::uint32_t lane = queue.first;
    Cursor& cursor = cursors_[lane];
    const FlatStep& step = flat_.steps[cursor.at];
    Message m = message(lane, step, cursor.ready_s);
    const double free_s = network_.free_s(m);
    if (calendar_.later(free_s)) {  // others have used the port meanwhile
      call(queue, free_s);
      return true;
    }
    queue.first = std::exchange(cursor.next_asleep, kNoIndex);
    const bool on = send_first(lane, step, m, free_s);
    if (queue.first != kNoIndex) {
      const Cursor& next = cursors_[queue.first];
      call(queue, network_.free_s(message(queue.first, flat_.steps[next.at], next.ready_s)));
    }
    return on;
  }

  bool send_first(std::uint32_t lane, const FlatStep& step, Message& m, double free_s) {
    if (connections_[step.out].under_way == slots_) {  // another lane took the slot
      sleep(lane, connections_[step.out].sender_asleep);
      return true;
    }
    const double leaves_s = network_.leaves_s(m, free_s);
    if (calendar_.later(leaves_s)) {  // the other end is busy
      calendar_.add(lane, leaves_s);
      return true;
    }
    now_s_ = std::max(now_s_, leaves_s);
    m.now_s = now_s_;
    work_.push_back(lane);
    return run_step(lane, step, m.ready_s, &m);
  }

  // False: asleep until the first thing that is missing has a time.
  bool can_start(std::uint32_t lane, const FlatStep& step, double& start_s) {
    if (step.waits && !wait(lane, step, start_s)) return false;
    if (step.in != kNoIndex) {
      Connection& in = connections_[step.in];
      if (in.timed == 0) return sleep(lane, in.receiver_asleep);
      start_s = std::max(start_s, entries_[step.in * slots_ + in.receive_at]);
    }
    if (step.out != kNoIndex) {
      Connection& out = connections_[step.out];
      if (out.under_way == slots_) return sleep(lane, out.sender_asleep);
      start_s = std::max(start_s, entries_[step.out * slots_ + out.send_at]);
    }
    return true;
  }

  // False: its message has no route. `m`: what it sends.
  bool run_step(std::uint32_t lane, const FlatStep& step, double start_s, const Message* m = nullptr) {
    Cursor& cursor = cursors_[lane];
    cursor.time_s = start_s;
    const FlatStepInfo& info = flat_.infos[flat_.lanes[lane].first_info + step.step];
    if (step.in != kNoIndex) receive(step.in, start_s);
    if (step.out != kNoIndex && !send(lane, step, info, *m)) return false;
    if (info.awaited()) reach(ends_at(lane, step, info), start_s, step.out != kNoIndex);
    ++cursor.at;
    find_step(lane, cursor);
    return true;
  }

  bool wait(std::uint32_t lane, const FlatStep& step, double& start_s) {
    const FlatStepInfo& info = flat_.infos[flat_.lanes[lane].first_info + step.step];
    const std::uint32_t outer = cursors_[lane].outer;
    for (std::uint32_t i = 0; i < info.wait_count; ++i) {
      const std::uint32_t number = flat_.waits[info.first_wait + i].end_number(outer, step.inner);
      if (number == kNoIndex) continue;
      if (ends_[number].left > 0) return sleep(lane, ends_[number].asleep);
      start_s = std::max(start_s, ends_[number].time_s);
    }
    return true;
  }

  void receive(std::uint32_t number, double at_s) {
    Connection& in = connections_[number];
    const std::uint32_t entry = number * slots_ + in.receive_at;
    entries_[entry] = at_s + in.receipt_s;
    in.receive_at = after(in.receive_at);
    --in.under_way;
    --in.timed;
    if (in.sender_asleep != kNoIndex) wake_all(in.sender_asleep);
    if (!ends_of_entry_.empty()) reach(std::exchange(ends_of_entry_[entry], {}), entries_[entry], false);
  }

  Message message(std::uint32_t lane, const FlatStep& step, double ready_s) const {
    const Connection& out = connections_[step.out];
    const FlatLane& flat = flat_.lanes[lane];
    const Index& segment = flat_.infos[flat.first_info + step.step].segment;
    return {.connection = step.out,
            .from = out.from,
            .to = out.to,
            .rail = flat.rail,
            .span = step.span,
            .segment = static_cast<std::uint32_t>(segment.at(cursors_[lane].outer, step.inner)),
            .ready_s = ready_s,
            .bytes = flat_.bytes_of_span[step.span]};
  }

  bool send(std::uint32_t lane, const FlatStep& step, const FlatStepInfo& info, const Message& m) {
    Connection& out = connections_[step.out];
    const std::uint32_t entry = step.out * slots_ + out.send_at;
    if (info.awaited()) ends_of_entry_[entry] = ends_at(lane, step, info);
    out.send_at = after(out.send_at);
    ++out.under_way;
    if constexpr (Network::kDeferred) {
      network_.send(m);
      return true;
    } else {
      const double arrival_s = network_.send(m);
      arrive(step.out, entry, arrival_s);
      return arrival_s < std::numeric_limits<double>::infinity();
    }
  }

  void arrive(std::uint32_t number, std::uint32_t entry, double at_s) {
    entries_[entry] = at_s;
    ++connections_[number].timed;
    if (connections_[number].receiver_asleep != kNoIndex) wake_all(connections_[number].receiver_asleep);
  }

  bool settle() {
    arrived_.clear();
    const bool any = network_.settle(arrived_);
    for (const Arrival& arrival : arrived_) {
      const Connection& c = connections_[arrival.connection];
      arrive(arrival.connection, arrival.connection * slots_ + (c.receive_at + c.timed) % slots_, arrival.at_s);
    }
    return any;
  }

  EndNumbers ends_at(std::uint32_t lane, const FlatStep& step, const FlatStepInfo& info) const {
    const std::uint32_t outer = cursors_[lane].outer;
    EndNumbers numbers;
    if (info.ends_of_all != kNoIndex) numbers.of_all = info.ends_of_all + outer;
    if (info.ends_of_each != kNoIndex)
      numbers.of_each = info.ends_of_each + outer * flat_.lanes[lane].inner + step.inner;
    return numbers;
  }

  // An iteration ran until `at_s`; if it sent something it is over with the receipt only.
  void reach(EndNumbers numbers, double at_s, bool receipt_pending) {
    for (const std::uint32_t number : {numbers.of_all, numbers.of_each}) {
      if (number == kNoIndex) continue;
      End& end = ends_[number];
      end.time_s = std::max(end.time_s, at_s);
      if (!receipt_pending && --end.left == 0) wake_all(end.asleep);
    }
  }

  // To the next step that has something to do in its iteration, or to the end.
  void find_step(std::uint32_t lane, Cursor& cursor) {
    const FlatLane& flat = flat_.lanes[lane];
    for (;;) {
      for (; cursor.at < cursor.end; ++cursor.at) {
        const FlatStepInfo& info = flat_.infos[flat.first_info + flat_.steps[cursor.at].step];
        if (cursor.outer >= info.outer_begin && cursor.outer < info.outer_end) return;
        if (info.awaited()) reach(ends_at(lane, flat_.steps[cursor.at], info), cursor.time_s, false);
      }
      if (++cursor.outer >= flat.outer) return;
      set_phase(flat, cursor);
    }
  }

  void set_phase(const FlatLane& flat, Cursor& cursor) {
    const std::uint32_t phase = flat.first_phase + (flat.phases == 1 ? 0 : cursor.outer % flat.phases);
    cursor.at = flat_.phase_begin[phase];
    cursor.end = flat_.phase_begin[phase + 1];
  }

  void enter(std::uint32_t lane) {
    if (flat_.lanes[lane].outer == 0) return;
    set_phase(flat_.lanes[lane], cursors_[lane]);
    find_step(lane, cursors_[lane]);
  }

  // A quarter of the mean message at the rate of a whole server.
  static double grain_s(const FlatLanes& flat, const Cluster& cluster) {
    double sum = 0;
    double count = 0;
    for (const double bytes : flat.bytes_of_span) {
      sum += bytes;
      count += bytes > 0 ? 1 : 0;
    }
    return count > 0 ? sum / count / cluster.healthy_server_rate() / 4 : 1;
  }

  std::unexpected<Error> stuck(std::uint32_t lane) const {
    const FlatLane& flat = flat_.lanes[lane];
    const Cursor& cursor = cursors_[lane];
    const FlatStep& step = flat_.steps[cursor.at];
    return fail(Fault::kBug, fmt::format("stuck: rank {}, lane {} ({}), step {} (iteration {}.{}) can never run",
                                         flat.rank, flat.number, schedule_.lanes[flat.rank][flat.number].name,
                                         step.step, cursor.outer, step.inner));
  }

  const Schedule& schedule_;
  const FlatLanes& flat_;
  Network& network_;
  const std::uint32_t slots_;
  std::vector<Cursor> cursors_;
  std::vector<Connection> connections_;
  std::vector<double> entries_;
  std::vector<EndNumbers>
      ends_of_entry_;  // which ends the receipt of an entry's message completes; empty if no send is awaited
  std::vector<End> ends_;
  std::vector<std::uint32_t> work_;  // lanes that may be able to go on
  std::vector<Queue> queues_;
  Calendar calendar_;  // lanes, and behind them queues
  double now_s_ = 0;
  std::vector<Arrival> arrived_;
};

}  // namespace r2ccl
