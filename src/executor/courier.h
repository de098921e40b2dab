#pragma once
// How an execution sends and receives: messages between the ranks of its communicator, matched in order. In a
// communicator they go over sessions or through memory that ranks share; tests have their own courier.
//
// Threads    The communicator's driver alone.

#include <cstdint>
#include <optional>

#include "base/id.h"
#include "base/result.h"
#include "transport/link.h"

namespace r2ccl {

class Courier {
 public:
  virtual ~Courier() = default;
  // The n-th send to (rank, channel) meets the n-th receive that `rank` posts for (this rank, channel). Both have the
  // same length, never 0. Memory stays valid until the token completes; completions come later, never from inside these
  // calls. A send completes with its receipt. kBusy: nothing was taken, try again later. `nic`: the NIC that the
  // schedule gives to the message's lane; a courier may know better.
  virtual Status send(std::uint32_t to, std::uint32_t channel, std::optional<NicId> nic, MemoryRef memory,
                      std::uint64_t token) = 0;
  virtual Status receive(std::uint32_t from, std::uint32_t channel, MemoryRef memory, std::uint64_t token) = 0;
};

}  // namespace r2ccl
