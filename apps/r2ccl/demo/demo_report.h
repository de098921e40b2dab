#pragma once
// What the ranks of the demo tell their parent: one JSON object per line.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/r2ccl/common/json.h"
#include "base/time.h"
#include "telemetry/telemetry.h"

namespace r2ccl::apps {

// Something that happened to a path or NIC, as one end saw it.
struct DemoEvent {
  EventKind kind{};
  Instant at{};
  std::uint32_t peer = 0;  // rank
  std::uint8_t here = 0;   // NICs of the path
  std::uint8_t there = 0;
  Cause cause = Cause::kNone;
  std::uint64_t number = 0;
  std::uint64_t extra = 0;
};

// Chunks sent again over a NIC since the last report.
struct DemoResent {
  Instant at{};
  std::uint8_t nic = 0;
  std::uint64_t bytes = 0;
};

// This rank placed no chunk of anybody for this long.
struct DemoGap {
  Instant from{};
  Instant to{};
};

// What a rank has sent so far.
struct DemoTick {
  Instant at{};
  std::vector<std::uint64_t> sent_bytes;  // by NIC
};

// One AllReduce at one rank: done and checked.
struct DemoRound {
  std::uint64_t number = 0;  // from 0
  Instant at{};              // it was done
  std::uint64_t wrong = 0;   // elements
  std::string algorithm;
  std::uint64_t health_version = 0;
};

// What a rank has done in all, said at its end.
struct DemoTotals {
  std::uint64_t rounds = 0;
  std::uint64_t checked = 0;  // elements
  std::uint64_t wrong = 0;
};

Json to_json(const DemoEvent& event);
Json to_json(const DemoResent& resent);
Json to_json(const DemoGap& gap);
Json to_json(const DemoTick& tick);
Json to_json(const DemoRound& round);
Json to_json(const DemoTotals& totals);

// Each takes an object of its own kind; the first key says which kind it is: event, resent, gap, tick, round, totals.
DemoEvent demo_event(const Json& object);
DemoResent demo_resent(const Json& object);
DemoGap demo_gap(const Json& object);
DemoTick demo_tick(const Json& object);
DemoRound demo_round(const Json& object);
DemoTotals demo_totals(const Json& object);

}  // namespace r2ccl::apps
