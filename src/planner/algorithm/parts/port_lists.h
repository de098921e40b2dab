#pragma once
// One rank's part of a schedule that is given message by message: everything the rank sends in one lane, everything it
// receives in another, so that the order of the lists is the order at its ports. Steps are stored one by one; it is for
// schedules whose order has no loop to be written as.
//
// The order can not deadlock when some numbering of all messages gives both lists of every rank in rising order and
// puts each message behind those it is made from.

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

// What a receiver does with a message: its own input is added, or the message is the result. Either ends in the output.
enum class Arrival : std::uint8_t { kAdded, kStored };

class PortLists final {
 public:
  PortLists(std::uint32_t pieces, std::size_t messages_each_way);

  void receive(std::uint32_t from, std::uint32_t piece, Arrival arrival);
  // Sends what was last received into the piece, or the rank's input when nothing was.
  void send(std::uint32_t to, std::uint32_t piece);
  // Marks a point of both lists, so that a port with nothing to wait for does not run ahead of the order at other
  // ports. What is sent from here on waits until all that was sent up to `back` marks before this one has been
  // received; with `both` it also waits for all that this rank was to receive by then. Between two marks a rank sends
  // to one peer only.
  void fence(std::uint32_t back, bool both);

  std::vector<Lane> take();

 private:
  static constexpr std::uint32_t kNotReceived = UINT32_MAX;

  struct Mark {
    std::uint32_t in = 0;  // steps listed
    std::uint32_t out = 0;
  };

  Lane out_;
  Lane in_;
  std::vector<std::uint32_t> made_by_;  // [piece]: the step of in_ that wrote it last
  std::vector<Mark> marks_;
  Mark fence_;   // steps that the next send waits for
  Mark waited_;  // … and that an earlier one has waited for; a lane ends its receives in order
};

}  // namespace r2ccl
