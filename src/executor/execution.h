#pragma once
// Runs one rank's lanes of one collective: the third user of a schedule, after the checker and the cluster model.
//
// Every lane is a cursor. A step starts when its waits are over, its message is there and fewer than `slots` messages of its outgoing
// connection lack a receipt. A send ends with its receipt. The rules and their proof are schedule.h's and check.h's; nothing is
// assumed here beyond them.
//
// Where messages land:
//   recv, recv_copy_send with a destination   straight in the destination
//   all other receives                        in a staging buffer of the connection, `slots` deep, from which one pass reduces
// Sends read input, output or scratch in place. recv_copy_send and the reducing sends read their destination when they have one,
// else the staging buffer, which is posted again only after the receipt.
//
// A lane posts receives ahead of the step it is at, in the order of its steps, up to `slots` messages of a connection. A staging
// buffer is private, so it can always be posted. A destination can when the step's own waits and those of all steps before it are
// over, and no step between touches that memory. (Data that nobody reads before it is overwritten may then be overwritten in
// either order.) Where several lanes receive from one connection, the order of its messages is that of their waits, so each posts
// only for the step it is at.
//
// Ownership  PlanHeader, lanes, device and courier are borrowed and outlive it; user memory stays valid until over(). Owns scratch and
//            staging, taken from and given back to the Pool, so that calls of one communicator share them.
// Threads    One driver at a time. Work per step() is bounded by kBytesPerStep.
// Reuse      restart() begins again; nothing is allocated then.
// Failure    A failed completion ends it: over() with the error. The courier must have stopped touching the memory before the object
//            goes (comm/ aborts the group first).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "executor/courier.h"
#include "executor/pool.h"
#include "schedule/schedule.h"

namespace r2ccl {

// The vector of the collective (schedule/layout.h) as one rank sees it: element i of the vector is at input + (i - input_first) *
// size, and alike for output. Ranks whose buffer is only their own block say where it begins. In place: both point to the same.
struct ExecutionBuffers {
  const std::byte* input = nullptr;
  std::uint64_t input_first = 0;
  std::byte* output = nullptr;
  std::uint64_t output_first = 0;
  std::uint64_t count = 0;  // elements of the whole vector
};

class Execution final {
 public:
  static constexpr std::size_t kBytesPerStep = 4 << 20;  // copied or reduced before step() returns

  Execution(const PlanHeader& header, std::span<const Lane> lanes, std::uint32_t rank, const ExecutionBuffers& buffers,
            DataType type, ReduceKind kind, const Device& device, Courier& courier, Pool& pool);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // From the start again, with other buffers of as many elements: a new one without the work of making it. Once it is over, and well.
  void restart(const ExecutionBuffers& buffers);

  // Goes as far as it can. True: something moved (call again before sleeping). What the courier refused as busy is tried again in
  // each call.
  bool step();
  // A token given to the courier is done. Goes no further itself; after the end it is ignored.
  void on_completion(std::uint64_t token, const Status& status);

  bool over() const;
  const Status& result() const;  // meaningful once over
  // For people, when it does not get on: the ranks it waits for, lowest first.
  std::vector<std::uint32_t> waiting_for() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
