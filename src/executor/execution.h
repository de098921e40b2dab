#pragma once
// Runs one rank's part of one collective, as its schedule says. Checker and cluster model follow the same rules
// (schedule/schedule.h, schedule/check), and nothing is assumed here beyond them.
//
// Every lane is a cursor over its steps. A step starts when its waits are over, its message is there, and fewer than
// `slots` messages of its outgoing connection lack a receipt. A send ends with its receipt.
//
// Where messages land:
//   recv, recv_copy_send with a destination   straight in the destination
//   all other receives                        in a staging buffer; every connection has `slots` of them
// Sends read input, output or scratch in place. recv_copy_send and the reducing sends read their destination when they
// have one, else the staging buffer, which is posted again only after the receipt.
//
// A lane posts receives ahead of its step, in the order of its steps and up to `slots` messages of a connection. A
// staging buffer is private, so it can always be posted. A destination can be posted when the waits of its step and
// of all steps before it are over, and no step between touches that memory. (Data that nobody reads before it is
// overwritten may then be overwritten in either order.) If several lanes receive from one connection, their waits
// decide the order of its messages, so each lane posts only for the step it is at.
//
// Ownership  PlanHeader, lanes, device, courier and pool are borrowed and outlive it; user memory stays valid until
//            over(). Takes scratch and staging from the Pool and gives them back, so that calls of one communicator
//            share them.
// Threads    One driver at a time. A step() copies or reduces about kBytesPerStep at most.
// Reuse      restart() begins again without allocating anything.
// Failure    A failed completion ends it: over() is true and result() has the error. The courier must have stopped
//            touching the memory before the object goes (comm/ aborts the group first).

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

// The vector of the collective (schedule/layout.h) as one rank sees it. Element i of the vector is at input + (i -
// input_first) * size, and likewise for output. A rank whose buffer is only its own block says with `first` where
// that begins. In place, both point to the same memory.
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

  // Runs it again with other buffers of as many elements, which costs less than a new one. Only when it is over and
  // did not fail.
  void restart(const ExecutionBuffers& buffers);

  // Goes as far as it can. True: something moved, so call again before sleeping. What the courier refused as busy is
  // tried again in each call.
  bool step();
  // A token given to the courier is done. Starts nothing; step() does. Ignored after an error.
  void on_completion(std::uint64_t token, const Status& status);

  bool over() const;
  const Status& result() const;  // meaningful once over
  // For people who ask why it does not get on: the ranks it waits for, lowest first.
  std::vector<std::uint32_t> waiting_for() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
