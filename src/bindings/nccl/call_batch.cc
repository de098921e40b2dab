#include "bindings/nccl/call_batch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "bindings/nccl/launch_state.h"

namespace r2ccl::bindings {

LaunchLock& launch_lock() {
  static auto* const kLock = new LaunchLock;
  return *kLock;
}

std::vector<std::size_t> launch_of_each(const std::vector<QueuedCall>& operations) {
  // Union-find over operations; the smallest index stands for its set.
  std::vector<std::size_t> parent(operations.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto find = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i];
    return i;
  };
  std::map<const void*, std::size_t> first_with;  // communicators and streams; looked up only
  const auto unite = [&](const void* what, std::size_t i) {
    const std::size_t a = find(first_with.try_emplace(what, i).first->second);
    const std::size_t b = find(i);
    parent[std::max(a, b)] = std::min(a, b);
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    unite(operations[i].member.get(), i);
    unite(operations[i].stream.get(), i);
  }
  std::vector<std::size_t> launches(operations.size());
  std::map<std::size_t, std::size_t> number;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    launches[i] = number.try_emplace(find(i), number.size()).first->second;
  }
  return launches;
}

namespace {

// Called with the lock held. Nobody has to wait for the launch any more, so its members let go of it: it holds on to
// them, and they would keep each other alive.
void mark_done(const std::shared_ptr<Launch>& launch) {
  launch->begun = launch->done = true;
  for (const auto& part : launch->parts) {
    if (part.member->last_launch != launch) continue;
    part.member->has_launch = false;
    part.member->last_launch.reset();
  }
  launch_lock().changed.notify_all();
}

void begin_parts(const std::shared_ptr<Launch>& launch) {
  {
    std::unique_lock lock(launch_lock().mutex);
    launch_lock().changed.wait(lock, [&] {
      return std::all_of(launch->after.begin(), launch->after.end(),
                         [](const auto& earlier) { return earlier->begun; });
    });
    launch->after.clear();  // a chain of all launches ever made would stay alive otherwise
  }
  for (auto& part : launch->parts) {
    auto ticket = part.member->comm()->submit(std::move(part.calls));
    if (ticket) {
      part.ticket = *ticket;
    } else {
      part.outcome = part.member->judge(std::unexpected(ticket.error()));
    }
  }
  const std::lock_guard lock(launch_lock().mutex);
  launch->begun = true;
  launch_lock().changed.notify_all();
}

void finish_parts(const std::shared_ptr<Launch>& launch) {
  Outcome first;
  for (auto& part : launch->parts) {
    if (part.ticket != nullptr) part.outcome = part.member->judge(part.member->comm()->wait(part.ticket));
    if (!part.outcome.ok()) {
      part.member->note(part.outcome);
      if (first.ok()) first = part.outcome;
    }
    part.member->look_at_nics();
  }
  const std::lock_guard lock(launch_lock().mutex);
  launch->outcome = std::move(first);
  mark_done(launch);
}

// Whatever `half` throws, those who wait for the launch must not wait for ever.
void settled(const std::shared_ptr<Launch>& launch, void (*half)(const std::shared_ptr<Launch>&)) {
  try {
    if (!launch->done) half(launch);
  } catch (const std::exception& bug) {
    const Outcome outcome{ncclInternalError, bug.what()};
    for (auto& part : launch->parts) part.member->note(outcome);
    const std::lock_guard lock(launch_lock().mutex);
    launch->outcome = outcome;
    mark_done(launch);
  }
}

void add_call(Launch& launch, const MemberPtr& member, const Call& call) {
  auto part = std::find_if(launch.parts.begin(), launch.parts.end(), [&](const auto& p) { return p.member == member; });
  if (part == launch.parts.end()) part = launch.parts.insert(part, {member, {}, nullptr, {}});
  part->calls.push_back(call);
  member->begin_call(call.count * size_of(call.type));
}

// With the lock held.
void take_turn(const std::shared_ptr<Launch>& launch) {
  for (const auto& part : launch->parts) {
    auto& last = part.member->last_launch;
    if (last != nullptr && !last->begun) launch->after.push_back(last);
    last = launch;
    part.member->has_launch = true;
  }
}

}  // namespace

void arrive(const std::shared_ptr<Launch>& launch) {
  std::unique_lock lock(launch_lock().mutex);
  if (--launch->streams_missing > 0) {
    launch_lock().changed.wait(lock, [&] { return launch->done; });
    return;
  }
  lock.unlock();
  settled(launch, begin_parts);
  settled(launch, finish_parts);
}

Outcome issue(std::vector<QueuedCall> operations) {
  const auto launch_of = launch_of_each(operations);
  std::vector<std::shared_ptr<Launch>> launches;
  std::vector<std::set<HostStream*>> streams;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (launch_of[i] == launches.size()) {
      launches.push_back(std::make_shared<Launch>());
      streams.emplace_back();
    }
    add_call(*launches[launch_of[i]], operations[i].member, operations[i].call);
    streams[launch_of[i]].insert(operations[i].stream.get());
  }
  std::shared_ptr<Launch> mine;  // the null stream is one stream, so at most one launch has it
  {
    const std::lock_guard lock(launch_lock().mutex);
    for (std::size_t i = 0; i < launches.size(); ++i) {
      launches[i]->streams_missing = streams[i].size();
      take_turn(launches[i]);
      for (HostStream* stream : streams[i]) {
        if (stream == nullptr) {
          mine = launches[i];
        } else {
          stream->push(launches[i]);
        }
      }
    }
    launch_lock().changed.notify_all();
  }
  if (mine == nullptr) return {};
  arrive(mine);
  return mine->outcome;
}

bool run_alone(const MemberPtr& member, const Call& call, Outcome& outcome) {
  if (member->has_launch) return false;
  outcome = member->judge(member->begin_call(call.count * size_of(call.type)).run(call));
  if (!outcome.ok()) member->note(outcome);
  member->look_at_nics();
  return true;
}

std::shared_ptr<Launch> begin(const MemberPtr& member, std::vector<Call> calls) {
  auto launch = std::make_shared<Launch>();
  launch->parts.push_back({member, std::move(calls), nullptr, {}});
  {
    const std::lock_guard lock(launch_lock().mutex);
    take_turn(launch);
  }
  settled(launch, begin_parts);
  return launch;
}

Outcome finish(const std::shared_ptr<Launch>& launch) {
  settled(launch, finish_parts);
  return launch->outcome;
}

void wait_for_launches(const MemberPtr& member) {
  std::unique_lock lock(launch_lock().mutex);
  const auto last = member->last_launch;
  launch_lock().changed.wait(lock, [&] { return last == nullptr || last->done; });
}

}  // namespace r2ccl::bindings
