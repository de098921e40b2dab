#pragma once
// Calls that begin together, and the order in which such launches reach communicators.
//
// A group falls into launches: calls that share a communicator or a stream, directly or through others, are one launch,
// and what has nothing in common stays apart, because waiting for each other could then be a deadlock that the user did
// not write. A launch begins when all its streams have come to it, after every launch that was issued earlier on one of
// its communicators; its streams go on when it is done. All launches of one issue() are queued under one lock, so
// streams can not meet in opposite orders.
//
// Threads    Any.

#include <nccl.h>

#include <memory>
#include <vector>

#include "bindings/nccl/entry/outcome.h"
#include "bindings/nccl/member.h"
#include "comm/call.h"

namespace r2ccl::bindings {

class HostStream;

// One call with where it goes. A null stream: the caller waits.
struct QueuedCall {
  MemberPtr member;
  std::shared_ptr<HostStream> stream;
  Call call;
};

// Which operations become one launch: an index for each, numbered by first appearance.
std::vector<std::size_t> launch_of_each(const std::vector<QueuedCall>& operations);

// Issues all of them. When it returns, those on the null stream are done; the outcome is the first failure among them.
Outcome issue(std::vector<QueuedCall> operations);

// The short way for one collective without a group or a stream: runs it, if nothing that was issued on its communicator
// is left to wait for. False: it has to be issued.
bool run_alone(const MemberPtr& member, const Call& call, Outcome& outcome);

// The same in two halves for one communicator without a stream: begun when the first returns, done when the second
// does.
std::shared_ptr<Launch> begin(const MemberPtr& member, std::vector<Call> calls);
Outcome finish(const std::shared_ptr<Launch>& launch);

// Waits until everything that was issued on the communicator is done.
void wait_for_launches(const MemberPtr& member);

// ---- host streams

// Null for the default streams (NULL and CUDA's two names for it); an outcome for what is no stream of ours.
Outcome find_stream(cudaStream_t handle, std::shared_ptr<HostStream>& stream);

}  // namespace r2ccl::bindings
