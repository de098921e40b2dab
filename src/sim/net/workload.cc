#include "sim/net/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace r2ccl::sim {

namespace {
constexpr Duration kBusyRetry = 1ms;
}  // namespace

Workload::Workload(const Scenario& scenario, Referee& referee)
    : scenario_(scenario), referee_(referee), messages_(scenario.messages.size()), waiting_(scenario.processes) {
  struct Last {
    Duration send{}, receive{};
    std::uint64_t sequence = 0;
  };
  std::map<std::tuple<int, int, int, int>, Last> streams;
  for (std::uint32_t i = 0; i < messages_.size(); ++i) {
    const PlannedMessage& plan = scenario.messages[i];
    Last& last = streams[{plan.from, plan.to, plan.stream, plan.group}];
    last.send = std::max(last.send, plan.send_at);
    last.receive = std::max(last.receive, plan.receive_at);
    messages_[i].send.due = last.send;
    messages_[i].receive.due = last.receive;
    messages_[i].send.sequence = messages_[i].receive.sequence = last.sequence++;
    messages_[i].send.memory = std::make_unique<UserMemory>(plan.bytes, plan.mapped_send);
    messages_[i].receive.memory = std::make_unique<UserMemory>(plan.posted_bytes, plan.mapped_receive);
    waiting_[plan.from].push_back({last.send, i, false});
    waiting_[plan.to].push_back({last.receive, i, true});
    unsettled_ += 2;
  }
  for (auto& operations : waiting_) {
    std::ranges::stable_sort(operations, {}, &Operation::due);
  }
}

void Workload::fill(std::uint32_t message, std::span<std::byte> out) const {
  SimRandom(scenario_.seed * 1000 + message).fill(out);
}

bool Workload::matches(std::uint32_t message, ByteView bytes) const {
  Bytes expected(scenario_.messages[message].bytes);
  fill(message, expected);
  return std::ranges::equal(bytes, expected);
}

void Workload::complain(std::uint32_t message, bool receive, const std::string& what) {
  const PlannedMessage& plan = scenario_.messages[message];
  referee_.violation(fmt::format("{} of message {} ({} → {}, stream {}, sequence {}, {} bytes): {}",
                                 receive ? "receive" : "send", message, plan.from, plan.to, plan.stream,
                                 side(message, receive).sequence, plan.bytes, what));
}

Turn Workload::post_due(std::size_t self, Instant start, Instant now, const std::vector<Session*>& sessions) {
  Turn turn;
  auto& operations = waiting_[self];
  std::set<std::tuple<int, int, int, int, bool>> full;
  std::erase_if(operations, [&](const Operation& operation) {
    const PlannedMessage& plan = scenario_.messages[operation.message];
    if (start + operation.due > now) {
      turn.next = std::min(turn.next, start + operation.due);
      return false;
    }
    const std::tuple stream{plan.from, plan.to, plan.stream, plan.group, operation.receive};
    if (!full.contains(stream) && post(operation, *sessions[operation.receive ? plan.from : plan.to])) return true;
    full.insert(stream);
    turn.next = std::min(turn.next, now + kBusyRetry);
    return false;
  });
  return turn;
}

bool Workload::post(const Operation& operation, Session& session) {
  const PlannedMessage& plan = scenario_.messages[operation.message];
  Side& mine = side(operation.message, operation.receive);
  // One stream id for each group, direction and lane, so that events name it.
  const StreamId stream{static_cast<std::uint64_t>(plan.group) << 24 | static_cast<std::uint64_t>(plan.from) << 16 |
                        static_cast<std::uint64_t>(plan.to) << 8 | plan.stream};
  const std::uint64_t token = std::uint64_t{operation.message} * 2 + (operation.receive ? 1 : 0);
  if (!operation.receive) fill(operation.message, mine.memory->bytes());
  mine.memory->begin();
  const GroupId group = sim_group(plan.group);
  const auto posted = operation.receive ? session.receive(group, stream, mine.memory->ref(), plan.tag, token)
                                        : session.send(group, stream, mine.memory->ref(), plan.tag, token);
  if (!posted && posted.error().fault == Fault::kBusy) return false;
  mine.posted = posted.has_value();
  if (!posted) {
    if (posted.error().fault != Fault::kPeerDown && !scenario_.aborts(plan.group))
      complain(operation.message, operation.receive, "refused: " + posted.error().what);
    settle(mine, false);
  } else if (*posted != mine.sequence) {
    complain(operation.message, operation.receive, fmt::format("got sequence {}", *posted));
  }
  return true;
}

void Workload::settle(Side& mine, bool ok) {
  if (mine.settled) return;
  mine.settled = true;
  mine.ok = ok;
  mine.memory->end();
  --unsettled_;
}

void Workload::on_completion(std::size_t self, std::size_t peer, const Completion& completion) {
  const auto message = static_cast<std::uint32_t>(completion.token / 2);
  const bool receive = completion.token % 2 == 1;
  if (message >= messages_.size()) {
    referee_.violation(
        fmt::format("process {} got a completion of its session with {} that it never asked for", self, peer));
    return;
  }
  Side& mine = side(message, receive);
  if (!mine.posted || mine.settled) {
    complain(message, receive, "completed twice");
    return;
  }
  if (!completion.status) {
    const Fault fault = completion.status.error().fault;
    const bool allowed = (fault == Fault::kPeerDown && scenario_.plan.lethal()) ||
                         (fault == Fault::kAborted && scenario_.aborts(scenario_.messages[message].group));
    if (!allowed) complain(message, receive, "failed: " + completion.status.error().what);
    settle(mine, false);
    return;
  }
  if (completion.sequence != mine.sequence)
    complain(message, receive, fmt::format("completed as sequence {}", completion.sequence));
  if (completion.length != scenario_.messages[message].bytes)
    complain(message, receive, fmt::format("completed with {} bytes", completion.length));
  if (receive) {
    check_received(message, completion);
  } else {
    check_sent(message);
  }
  settle(mine, true);
}

// A buffer that was not copied is free only when the bytes are at the other end.
void Workload::check_sent(std::uint32_t message) {
  const PlannedMessage& plan = scenario_.messages[message];
  const Side& receive = messages_[message].receive;
  if (plan.bytes <= scenario_.session.limits.copy_bytes_max || receive.settled) return;
  // Before its receive it lies in memory of the other session.
  if (!receive.posted && plan.bytes <= scenario_.session.limits.eager_message_max) return;
  if (!receive.posted || !matches(message, receive.memory->bytes().first(plan.bytes)))
    complain(message, false, "completed before its bytes were at the other end");
}

void Workload::check_received(std::uint32_t message, const Completion& completion) {
  const PlannedMessage& plan = scenario_.messages[message];
  UserMemory& memory = *messages_[message].receive.memory;
  if (completion.tag != plan.tag) complain(message, true, "completed with another tag");
  if (!matches(message, memory.bytes().first(plan.bytes))) complain(message, true, "wrong bytes");
  if (!memory.untouched_after(plan.bytes)) complain(message, true, "bytes beyond the message were written");
}

void Workload::on_abort(std::size_t self, std::uint8_t group) {
  for (std::uint32_t i = 0; i < messages_.size(); ++i) {
    for (const bool receive : {false, true}) {
      const PlannedMessage& plan = scenario_.messages[i];
      const Side& mine = side(i, receive);
      if (plan.group != group || (receive ? plan.to : plan.from) != self || !mine.posted || mine.settled) continue;
      complain(i, receive, "was still pending after its group was aborted");
    }
  }
}

void Workload::on_process_dead(std::size_t process) {
  waiting_[process].clear();
  for (std::uint32_t i = 0; i < messages_.size(); ++i) {
    for (const bool receive : {false, true}) {
      const std::size_t owner = receive ? scenario_.messages[i].to : scenario_.messages[i].from;
      Side& mine = side(i, receive);
      if (owner != process || mine.settled) continue;
      mine.settled = true;
      --unsettled_;
    }
  }
}

void Workload::check_end() {
  for (std::uint32_t i = 0; i < messages_.size(); ++i) {
    for (const bool receive : {false, true}) {
      const Side& mine = side(i, receive);
      if (!mine.settled) complain(i, receive, mine.posted ? "never completed" : "never taken");
      const std::string complaint = mine.memory->complaint();
      if (!complaint.empty()) complain(i, receive, complaint);
    }
  }
}

}  // namespace r2ccl::sim
