#include "process/comm.h"

namespace r2ccl {

Status wait_all(std::span<const Waiting> waiting) {
  // Each endpoint is driven by its own thread, too; this one only must not sleep on one of them.
  constexpr Duration kTurn = 100us;
  if (waiting.size() == 1) return waiting[0].comm->wait(waiting[0].ticket);
  for (bool open = true; open;) {
    open = false;
    for (const Waiting& one : waiting) open |= !one.comm->wait_for(one.ticket, kTurn);
  }
  for (const Waiting& one : waiting) {
    if (!one.ticket->result) return one.ticket->result;
  }
  return {};
}

}  // namespace r2ccl
