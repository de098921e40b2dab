#pragma once
// What the demo's ranks measured as time went by, and figures taken from it. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/r2ccl/demo/demo_report.h"

namespace r2ccl::apps {

// One AllReduce, put together from all ranks.
struct RoundFacts {
  Instant at{};             // the last rank was done
  std::uint32_t ranks = 0;  // that are done
  std::uint64_t wrong = 0;  // elements, at all of them
  std::string algorithm;    // as the first rank to report it said
  std::uint64_t health_version = 0;
};

class DemoSeries final {
 public:
  DemoSeries(std::uint32_t servers, std::uint32_t nics) : servers_(servers), nics_(nics) {}

  void add(std::uint32_t rank, const DemoTick& tick) { ticks_[rank].push_back(tick); }
  void add(const DemoRound& round);

  // The AllReduces that are done at every rank, in their order.
  std::size_t rounds() const { return complete_; }
  const RoundFacts& round(std::size_t number) const { return rounds_[number]; }
  // How long an AllReduce took: from the one before being done to this one being done; nothing for the first.
  Duration took(std::size_t number) const;

  // The median of those that ran wholly between the two; nothing where there is none.
  std::optional<Duration> median_round(Instant from, Instant to) const;
  // By how much those that ran at some time between the two took longer than `usual`, all together.
  Duration lost(Instant from, Instant to, Duration usual) const;

  // Bytes per second that a NIC sent; 0 where nothing is known.
  double sent_rate(std::uint32_t server, std::uint32_t nic, Instant from, Instant to) const;
  // The part that the NIC had in what its server sent.
  double sent_share(std::uint32_t server, std::uint32_t nic, Instant from, Instant to) const;

 private:
  double sent(std::uint32_t server, std::uint32_t nic, Instant at) const;

  const std::uint32_t servers_;
  const std::uint32_t nics_;
  std::map<std::uint32_t, std::vector<DemoTick>> ticks_;  // by rank
  std::vector<RoundFacts> rounds_;
  std::size_t complete_ = 0;
};

}  // namespace r2ccl::apps
