#pragma once
// Runs the lanes of all ranks against a network (message.h) and gives every step its time.
//
// Times are max-plus: a step starts when its lane, its waits, its message and a free slot of its outgoing connection
// are there. So only where messages compete for a port does the order matter in which they are handed to the network.
// They are handed over in the order of time, up to a quarter of a message's length: a message that is not ready waits
// in a calendar, one that is ready waits in the queue of its port, first come, first served. All other steps run as
// soon as what they need has a time; until then their lane is asleep.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "sim/cluster/calendar.h"
#include "sim/cluster/connections.h"
#include "sim/cluster/flat_lanes.h"
#include "sim/cluster/long_pipeline.h"
#include "sim/cluster/message.h"
#include "sim/cluster/replay_state.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

template <class Network>
class Replay final {
 public:
  // All must outlive the object. `progress`, if given, is told when lanes pass their rounds. `segments`: messages say
  // which segment they are of.
  Replay(const Schedule& schedule, const FlatLanes& flat, const Cluster& cluster, Network& network,
         RoundProgress* progress = nullptr, bool segments = false)
      : schedule_(schedule),
        flat_(flat),
        network_(network),
        progress_(progress),
        segments_(segments),
        steps_(flat.steps.data()),
        last_step_(static_cast<std::uint32_t>(std::max<std::size_t>(flat.steps.size(), 1) - 1)),
        receipt_s_{cluster.alpha_s, cluster.intra_alpha_s},
        connections_(flat, schedule.header.slots),
        ends_(flat.end_count),
        calendar_(0, 1) {
    if constexpr (!Network::kDeferred) {
      queues_.resize(network.queues());
      calendar_ = Calendar(flat.lanes.size() + queues_.size(), grain_s(flat, cluster));
    }
    cursors_.reserve(flat.lanes.size());
    loops_.reserve(flat.lanes.size());
    for (std::uint32_t lane = 0; lane < flat.lanes.size(); ++lane) add_cursor(lane);
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
      if (progress_ != nullptr) progress_->end(lane, cursors_[lane].time_s);
    }
    return end_s;
  }

 private:
  void add_cursor(std::uint32_t number) {
    const FlatLane& lane = flat_.lanes[number];
    LaneState& cursor = cursors_.emplace_back();
    cursor.rank = lane.rank;
    cursor.rail = lane.rail;
    LaneLoop& loop = loops_.emplace_back(
        LaneLoop{.outer_count = lane.outer, .first_phase = lane.first_phase, .phases = lane.phases});
    const std::size_t last = number + 1 < flat_.lanes.size() ? flat_.lanes[number + 1].first_info : flat_.infos.size();
    for (std::size_t i = lane.first_info; i < last; ++i) {
      const FlatStepInfo& info = flat_.infos[i];
      loop.all_begin = std::max(loop.all_begin, info.outer_begin);
      loop.all_end = std::min(loop.all_end, info.outer_end);
      const std::uint32_t ends = lane.outer * info.ends_per_outer;
      for (std::uint32_t end = 0; end < ends; ++end) ends_[info.first_end + end].left = info.iterations_per_end;
    }
  }

  bool done(std::uint32_t lane) const { return cursors_[lane].at == kNoIndex; }
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
    LaneState& cursor = cursors_[lane];
    while (cursor.at != kNoIndex) {
      const FlatStep& step = steps_[cursor.at];
      prefetch_connections(cursor.at + 4);
      double start_s = cursor.time_s;
      if (!can_start(lane, step, start_s)) return;
      if constexpr (Network::kDeferred) {
        run_step<true>(lane, step, start_s, message(cursor, step, start_s));
      } else {
        if (step.out != kNoIndex) return hold(lane, message(cursor, step, start_s));
        run_step<false>(lane, step, start_s, {});
      }
    }
  }

  // The lane keeps its message: in the calendar until it is ready, then in the queue of its port.
  void hold(std::uint32_t lane, const Message& m) {
    LaneState& cursor = cursors_[lane];
    cursor.ready_s = m.ready_s;
    cursor.bytes = m.bytes;
    cursor.out = m.connection;
    cursor.to = m.to;
    cursor.inside = m.inside;
    if (calendar_.later(m.ready_s)) return calendar_.add(lane, m.ready_s);
    line_up(lane, m);
  }

  void line_up(std::uint32_t lane, const Message& m) {
    PortQueue& queue = queues_[network_.queue_of(m)];
    (queue.first == kNoIndex ? queue.first : cursors_[queue.last].next_asleep) = lane;
    queue.last = lane;
    if (!queue.in_calendar) call(queue, network_.free_s(m));
  }

  // Puts the port into the calendar, so that the first of its queue is looked at when the port is free.
  void call(PortQueue& queue, double free_s) {
    queue.in_calendar = true;
    calendar_.add(static_cast<std::uint32_t>(cursors_.size() + static_cast<std::size_t>(&queue - queues_.data())),
                  free_s);
  }

  // The next in time: a message that is ready now, or a port that is free. False: there is none, or it has no route.
  bool hand_over() {
    const std::uint32_t number = calendar_.take();
    if (number == kNoIndex) return false;
    if (number < cursors_.size()) {
      line_up(number, message(cursors_[number]));
      return true;
    }
    PortQueue& queue = queues_[number - cursors_.size()];
    queue.in_calendar = false;
    const std::uint32_t lane = queue.first;
    LaneState& cursor = cursors_[lane];
    const FlatStep& step = steps_[cursor.at];
    prefetch_connections(cursor.at + 1);
    Message m = message(cursor);
    const double free_s = network_.free_s(m);
    if (calendar_.later(free_s)) {  // others have used the port meanwhile
      call(queue, free_s);
      return true;
    }
    queue.first = std::exchange(cursor.next_asleep, kNoIndex);
    const bool on = send_first(lane, step, m, free_s);
    if (queue.first != kNoIndex) {
      const LaneState& next = cursors_[queue.first];
      __builtin_prefetch(&steps_[next.at]);
      connections_.prefetch(next.out);
      call(queue, network_.free_s(message(next)));
    }
    return on;
  }

  bool send_first(std::uint32_t lane, const FlatStep& step, Message& m, double free_s) {
    if (connections_.full(connections_[step.out])) {  // another lane took the slot
      sleep(lane, connections_.senders_asleep(connections_[step.out]));
      return true;
    }
    const double leaves_s = network_.leaves_s(m, free_s);
    if (calendar_.later(leaves_s)) {  // the other end is busy
      calendar_.add(lane, leaves_s);
      return true;
    }
    now_s_ = std::max(now_s_, leaves_s);
    m.now_s = now_s_;
    if (segments_) [[unlikely]]
      tell_segment(cursors_[lane], step, m);
    work_.push_back(lane);
    return run_step<true>(lane, step, m.ready_s, m);
  }

  // False: asleep until the first thing that is missing has a time.
  bool can_start(std::uint32_t lane, const FlatStep& step, double& start_s) {
    if (step.waits && !wait(lane, step, start_s)) return false;
    if (step.in != kNoIndex) {
      ConnectionState& in = connections_[step.in];
      if (connections_.timed(in) == 0) return sleep(lane, connections_.receivers_asleep(in));
      start_s = std::max(start_s, connections_.at_s(in, in.receive_at));
    }
    if (step.out != kNoIndex) {
      ConnectionState& out = connections_[step.out];
      if (connections_.full(out)) return sleep(lane, connections_.senders_asleep(out));
      start_s = std::max(start_s, connections_.at_s(out, connections_.slot(out, out.under_way)));
    }
    return true;
  }

  // False: its message `m` has no route. `kMaySend`: not if it is known that the step sends nothing.
  template <bool kMaySend>
  bool run_step(std::uint32_t lane, const FlatStep& step, double start_s, const Message& m) {
    LaneState& cursor = cursors_[lane];
    cursor.time_s = start_s;
    const std::uint32_t end = step.awaited ? end_of(cursor, step) : kNoIndex;
    if (step.in != kNoIndex) receive(step, start_s);
    if constexpr (kMaySend) {
      if (step.out != kNoIndex && !send(step, end, m)) return false;
    }
    if (end != kNoIndex) reach(end, start_s, kMaySend && step.out != kNoIndex);
    if (step.whole_loop && ++cursor.times < flat_.infos[step.info].inner) return true;
    cursor.times = 0;
    ++cursor.at;
    find_step(lane, cursor);
    return true;
  }

  bool wait(std::uint32_t lane, const FlatStep& step, double& start_s) {
    const FlatStepInfo& info = flat_.infos[step.info];
    const std::uint32_t outer = cursors_[lane].outer;
    const std::uint32_t inner = step.inner + cursors_[lane].times;
    for (std::uint32_t i = 0; i < info.wait_count; ++i) {
      const FlatWait& wait = flat_.waits[info.first_wait + i];
      const std::uint32_t first = wait.end_number(outer, inner);
      if (first == kNoIndex) continue;
      for (std::uint32_t number = first; number < first + wait.ends(); ++number) {
        if (ends_[number].left > 0) return sleep(lane, ends_[number].asleep);
        start_s = std::max(start_s, ends_[number].time_s);
      }
    }
    return true;
  }

  void receive(const FlatStep& step, double at_s) {
    ConnectionState& in = connections_[step.in];
    const std::uint32_t slot = in.receive_at;
    const double receipt_s = at_s + receipt_s_[step.from_inside ? 1 : 0];
    connections_.at_s(in, slot) = receipt_s;
    connections_.receive(in);
    wake_all(connections_.senders_asleep(in));
    if (!step.receipt_awaited) return;
    const std::uint32_t end = std::exchange(connections_.end(in, slot), kNoIndex);
    if (end != kNoIndex) reach(end, receipt_s, false);
  }

  Message message(const LaneState& cursor, const FlatStep& step, double ready_s) const {
    return {.connection = step.out,
            .from = cursor.rank,
            .to = step.to,
            .rail = cursor.rail,
            .inside = step.to_inside,
            .ready_s = ready_s,
            .bytes = flat_.bytes_of_span[step.span]};
  }
  // The message that a lane holds.
  Message message(const LaneState& cursor) const {
    return {.connection = cursor.out,
            .from = cursor.rank,
            .to = cursor.to,
            .rail = cursor.rail,
            .inside = cursor.inside,
            .ready_s = cursor.ready_s,
            .bytes = cursor.bytes};
  }
  void tell_segment(const LaneState& cursor, const FlatStep& step, Message& m) const {
    m.span = step.span;
    m.segment = static_cast<std::uint32_t>(flat_.segments[step.info].at(cursor.outer, step.inner + cursor.times));
  }

  bool send(const FlatStep& step, std::uint32_t end, const Message& m) {
    ConnectionState& out = connections_[step.out];
    const std::uint32_t slot = connections_.slot(out, out.under_way);
    if (end != kNoIndex) connections_.end(out, slot) = end;
    connections_.send(out);
    if constexpr (Network::kDeferred) {
      network_.send(m);
      return true;
    } else {
      const std::uint32_t receiver = connections_.receivers_asleep(out);
      if (receiver != kNoIndex) __builtin_prefetch(&steps_[cursors_[receiver].at]);
      const double arrival_s = network_.send(m);
      if (receiver != kNoIndex) prefetch_connections(cursors_[receiver].at + 1);
      arrive(out, slot, arrival_s);
      return arrival_s < std::numeric_limits<double>::infinity();
    }
  }

  void arrive(ConnectionState& c, std::uint32_t slot, double at_s) {
    connections_.at_s(c, slot) = at_s;
    connections_.arrive(c);
    wake_all(connections_.receivers_asleep(c));
  }

  bool settle() {
    arrived_.clear();
    const bool any = network_.settle(arrived_);
    for (const MessageArrival& arrival : arrived_) {
      ConnectionState& c = connections_[arrival.connection];
      arrive(c, connections_.slot(c, connections_.timed(c)), arrival.at_s);
    }
    return any;
  }

  std::uint32_t end_of(const LaneState& cursor, const FlatStep& step) const {
    const FlatStepInfo& info = flat_.infos[step.info];
    return info.first_end + cursor.outer * info.ends_per_outer +
           (info.ends_per_outer > 1 ? step.inner + cursor.times : 0);
  }

  // An iteration ran until `at_s`; if it sent something it is over with the receipt only.
  void reach(std::uint32_t number, double at_s, bool receipt_pending) {
    StepEnd& end = ends_[number];
    end.time_s = std::max(end.time_s, at_s);
    if (!receipt_pending && --end.left == 0) wake_all(end.asleep);
  }

  // Moves on to the next step that has something to do in its iteration, or to the end.
  void find_step(std::uint32_t lane, LaneState& cursor) {
    for (;;) {
      for (; cursor.at < cursor.end; ++cursor.at) {
        if (cursor.all || runs(cursor)) return prefetch_step(cursor.at);
        const FlatStep& step = steps_[cursor.at];
        // Nobody waits for a whole inner loop that is skipped.
        if (step.awaited && !step.whole_loop) reach(end_of(cursor, step), cursor.time_s, false);
      }
      if (progress_ != nullptr) progress_->pass(lane, cursor.outer, cursor.time_s);
      ++cursor.outer;
      if (!set_phase(cursor, loops_[lane])) return;
    }
  }

  bool runs(const LaneState& cursor) const {
    const FlatStepInfo& info = flat_.infos[steps_[cursor.at].info];
    return cursor.outer >= info.outer_begin && cursor.outer < info.outer_end;
  }

  // Most of the time goes into waiting for memory. What a lane touches next is asked for while something else is done:
  // the steps after `at`, their connections, and what the lane asleep on them does next.
  void prefetch_step(std::uint32_t at) const { __builtin_prefetch(steps_ + std::min(at + 8, last_step_)); }
  void prefetch_connections(std::uint32_t at) const {
    if (at > last_step_) return;
    connections_.prefetch(steps_[at].in);
    connections_.prefetch(steps_[at].out);
  }

  // False: there is no such outer iteration, the lane is done.
  bool set_phase(LaneState& cursor, const LaneLoop& loop) {
    if (cursor.outer >= loop.outer_count) {
      cursor.at = kNoIndex;
      return false;
    }
    const std::uint32_t phase = loop.first_phase + (loop.phases == 1 ? 0 : cursor.outer % loop.phases);
    cursor.at = flat_.phase_begin[phase];
    cursor.end = flat_.phase_begin[phase + 1];
    cursor.all = cursor.outer >= loop.all_begin && cursor.outer < loop.all_end;
    return true;
  }

  void enter(std::uint32_t lane) {
    if (set_phase(cursors_[lane], loops_[lane])) find_step(lane, cursors_[lane]);
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
    const LaneState& cursor = cursors_[lane];
    const FlatStep& step = steps_[cursor.at];
    return fail(Fault::kBug, fmt::format("stuck: rank {}, lane {} ({}), step {} (iteration {}.{}) can never run",
                                         flat.rank, flat.number, schedule_.lanes[flat.rank][flat.number].name,
                                         step.info - flat.first_info, cursor.outer, step.inner + cursor.times));
  }

  const Schedule& schedule_;
  const FlatLanes& flat_;
  Network& network_;
  RoundProgress* const progress_;
  const bool segments_;
  const FlatStep* const steps_;
  const std::uint32_t last_step_;
  const std::array<double, 2> receipt_s_;  // between servers, inside one
  std::vector<LaneState> cursors_;
  std::vector<LaneLoop> loops_;
  Connections<Network::kDeferred> connections_;
  std::vector<StepEnd> ends_;
  std::vector<std::uint32_t> work_;  // lanes that may be able to go on
  std::vector<PortQueue> queues_;
  Calendar calendar_;  // lanes, and behind them queues
  double now_s_ = 0;
  std::vector<MessageArrival> arrived_;
};

}  // namespace r2ccl::sim
