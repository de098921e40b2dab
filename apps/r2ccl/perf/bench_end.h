#pragma once
// One end of a session under measurement: streams messages through a ring of slots, and plays ping-pong. The calling
// thread waits through the driver, as a blocking program would. Every call ends with an error when the other end does
// not answer.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/perf/bare_link.h"
#include "env/settings.h"
#include "runtime/threads/process.h"
#include "transport/link.h"

namespace r2ccl::apps {

// A process without a communicator that has met the other one of its pair, and the secret that both hold.
struct MetPeer {
  std::unique_ptr<Process> process;
  ProcessId peer;
  Secret secret;
};

class BenchEnd final {
 public:
  static constexpr Duration kSilenceMax = 20s;

  // Meets the other end through the parent (common/job.h); the first of the two hosts.
  static Result<std::unique_ptr<BenchEnd>> create(const Settings& settings, bool first, LineChannel& parent);

  // The whole plan, through the ring's slots: each holds one message under way. Returns when the last one is complete.
  Status send(const CopyPlan& plan, Region& ring) { return stream(plan, ring, true); }
  Status receive(const CopyPlan& plan, Region& ring) { return stream(plan, ring, false); }

  Status ping(std::uint64_t roundtrips);
  Status pong(std::uint64_t roundtrips);

  // To be called at both ends.
  void finish() { met_.process->finish(); }

 private:
  explicit BenchEnd(MetPeer met);
  Driver& driver() { return met_.process->driver(); }
  Status stream(const CopyPlan& plan, Region& ring, bool sending);
  Status post(Engine& engine, bool sending, StreamId stream, MemoryRef memory, std::uint64_t token);
  Status post_ping(Engine& engine);
  Status post_ping_receive(Engine& engine);
  // Waits until a completion is there; then tokens_ has the tokens of all.
  Status await_tokens();
  Status await_ping();

  std::vector<std::uint64_t> tokens_;
  std::array<std::byte, kPingBytes> ping_out_{}, ping_in_{};
  HostRegion ping_out_region_{ping_out_.data(), ping_out_.size()};
  HostRegion ping_in_region_{ping_in_.data(), ping_in_.size()};
  MetPeer met_;  // goes first: it uses the memory above
};

}  // namespace r2ccl::apps
