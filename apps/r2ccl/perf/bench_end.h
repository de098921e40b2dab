#pragma once
// One end of a session under measurement: streams messages through a ring of slots, and plays ping-pong. The calling
// thread waits through the driver, as a blocking program would. Throws Gone when the other end does not answer.

#include <array>
#include <cstdint>
#include <vector>

#include "apps/r2ccl/common/job.h"
#include "apps/r2ccl/perf/bare_link.h"
#include "transport/link.h"

namespace r2ccl::apps {

class BenchEnd final {
 public:
  static constexpr Duration kSilenceMax = 20s;

  BenchEnd(const Settings& settings, const JobPlace& place, LineChannel& parent);

  // The whole plan, through the ring's slots: each holds one message under way. Returns when the last one is complete.
  void send(const CopyPlan& plan, Region& ring) { stream(plan, ring, true); }
  void receive(const CopyPlan& plan, Region& ring) { stream(plan, ring, false); }

  void ping(std::uint64_t roundtrips);
  void pong(std::uint64_t roundtrips);

  // To be called at both ends.
  void finish() { job_.process->finish(); }

 private:
  void stream(const CopyPlan& plan, Region& ring, bool sending);
  void post(Engine& engine, bool sending, StreamId stream, MemoryRef memory, std::uint64_t token);
  // Waits until a completion is there; gives the tokens of all.
  const std::vector<std::uint64_t>& await_tokens();
  void await_ping();

  ProcessId peer_;
  std::vector<std::uint64_t> tokens_;
  std::array<std::byte, kPingBytes> ping_out_{}, ping_in_{};
  HostRegion ping_out_region_{ping_out_.data(), ping_out_.size()};
  HostRegion ping_in_region_{ping_in_.data(), ping_in_.size()};
  JobEnd job_;  // goes first: it uses the memory above
};

}  // namespace r2ccl::apps
