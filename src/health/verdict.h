#pragma once
// Names the culprit when a path dies: a NIC, the link between two NICs, a whole rail, or nobody. Pure functions over
// what both ends observed (merge) and, where that does not settle it, over the results of probes (decide). The tables
// are the specification; runtime/judge.h collects what they need.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "topology/path_state.h"

namespace r2ccl {

enum class Blame : std::uint8_t {
  kUnknown,    // not settled by what was observed: probe
  kNic,        // the NIC, its port or its cable
  kLink,       // the way between two NICs that both work otherwise
  kRail,       // every pair of the rail fails: switch
  kTransient,  // everything answers again: rebuilt, counted as a flap
};
const char* to_text(Blame blame);

struct NicName {
  ServerId server;
  NicId nic;
  friend auto operator<=>(NicName, NicName) = default;
};

// One end's account of one path that died.
struct Observation {
  NicName here;   // the observer's NIC
  NicName there;  // the other end's
  Cause cause = Cause::kNone;
  Instant at{};
};

// Both ends must reach the same verdict in the same words, so of two names the lower is always `culprit`.
struct Verdict {
  Blame blame = Blame::kUnknown;
  NicName culprit;               // kNic: that one; otherwise one end of the path
  std::optional<NicName> other;  // the other end; with kNic only where both NICs are to blame
  std::string why;               // "carrier lost", "silent from 2 servers"
};

// What the observations of the last moments say about the path between `a` and `b`:
//
//   hard evidence at an end (carrier off, address gone, ENETDOWN, ENETUNREACH)       that end's NIC, or both ends'
//   silence or time-outs towards a NIC from two remote servers                       that NIC
//   a reset alone, or silence from one server                                        kUnknown (probes decide)
//
// An accusation counts only from a NIC that has no hard evidence against itself and fewer accusers than the one it
// accuses: a dead NIC finds everybody else silent.
Verdict merge(NicName a, NicName b, std::span<const Observation> observations);

enum class ProbeResult : std::uint8_t { kOk, kLocalError, kTimeout, kUnasked };

// The results of four probes: a to b, b to a, and a third NIC z to both. Each connects and shakes hands within 250 ms.
struct Probes {
  ProbeResult a_to_b = ProbeResult::kUnasked;
  ProbeResult b_to_a = ProbeResult::kUnasked;
  ProbeResult z_to_a = ProbeResult::kUnasked;
  ProbeResult z_to_b = ProbeResult::kUnasked;
  bool whole_rail_fails = false;  // every other pair of the rail is known dead
};

// The decision table. T = time-out, L = local error, - = unasked or z's own error. It also holds with a and b swapped.
//
//   a->b  b->a  z->a  z->b   verdict
//   ok    ok    any   any    transient
//   ok    T/L   any   any    link, one-way
//   T     T     ok    ok     link
//   L     any   T,-   any    NIC a (b as well only if it has its own local error: then both)
//   L     any   ok    any    a is reachable, so its local error is about the way: judged as T
//   T     T     T     ok,-   NIC a, cable or port
//   T     T     T     T      both NICs; the rail when every other pair of it is dead too (also with L in place of T)
//   T     T     -     -,ok   link: nobody but b missed a
//   -     -     -     -      unknown
//
// An end that was not asked counts as T, because its path is dead: that is why there are probes. Where there are only
// two servers, z is a second NIC of the same server and can ask only the far end (a2->b is z_to_b, b2->a is z_to_a);
// the rows with `-` cover that.
Verdict decide(NicName a, NicName b, const Probes& probes);

std::string to_text(const Verdict& verdict);

}  // namespace r2ccl
