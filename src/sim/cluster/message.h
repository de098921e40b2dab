#pragma once
// What a replay hands to a network. A network is a class with
//   static constexpr bool kDeferred;
//   double send(const Message&);                   the arrival time, or infinity: no route, stop
//   std::uint32_t queues() const;                  outgoing ports
//   std::uint32_t queue_of(const Message&) const;
//   double free_s(const Message&) const;           when its port can take it
//   double leaves_s(const Message&, double free_s) const;  when it would leave if it were sent now
// or, if kDeferred, one that takes messages at any time and tells their arrivals later:
//   void send(const Message&);
//   bool settle(std::vector<MessageArrival>& arrived)     runs until messages arrive; false if nothing is under way

#include <cstdint>

#include "schedule/schedule.h"

namespace r2ccl::sim {

struct Message {
  std::uint32_t connection = 0;
  std::uint32_t from = 0;  // ranks
  std::uint32_t to = 0;
  std::int32_t rail = kAnyRail;
  bool inside = false;  // `from` and `to` are of one server
  std::uint32_t span = 0;
  std::uint32_t segment = 0;
  double ready_s = 0;
  double bytes = 0;
  double now_s = 0;  // of the hand-over; never falls, up to the calendar's grain
};

struct MessageArrival {
  std::uint32_t connection = 0;
  double at_s = 0;
};

}  // namespace r2ccl::sim
