#include "apps/r2ccl/demo/demo_series.h"

#include <algorithm>
#include <iterator>

namespace r2ccl::apps {

void DemoSeries::add(const DemoRound& round) {
  if (rounds_.size() <= round.number) rounds_.resize(round.number + 1);
  RoundFacts& facts = rounds_[round.number];
  if (facts.ranks++ == 0) {
    facts.algorithm = round.algorithm;
    facts.health_version = round.health_version;
  }
  facts.at = std::max(facts.at, round.at);
  facts.wrong += round.wrong;
  while (complete_ < rounds_.size() && rounds_[complete_].ranks == servers_) ++complete_;
}

Duration DemoSeries::took(std::size_t number) const {
  return number == 0 ? Duration::zero() : rounds_[number].at - rounds_[number - 1].at;
}

std::optional<Duration> DemoSeries::median_round(Instant from, Instant to) const {
  std::vector<Duration> times;
  for (std::size_t i = 1; i < complete_; ++i) {
    if (rounds_[i - 1].at >= from && rounds_[i].at <= to) times.push_back(took(i));
  }
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

Duration DemoSeries::lost(Instant from, Instant to, Duration usual) const {
  Duration all{};
  for (std::size_t i = 1; i < complete_; ++i) {
    if (rounds_[i].at > from && rounds_[i - 1].at < to) all += std::max(Duration::zero(), took(i) - usual);
  }
  return all;
}

// Between two ticks it grew evenly.
double DemoSeries::sent(std::uint32_t server, std::uint32_t nic, Instant at) const {
  const auto found = ticks_.find(server);
  if (found == ticks_.end() || found->second.empty()) return 0;
  const std::vector<DemoTick>& ticks = found->second;
  const auto figure = [nic](const DemoTick& tick) { return static_cast<double>(tick.sent_bytes.at(nic)); };
  const auto after = std::ranges::lower_bound(ticks, at, {}, &DemoTick::at);
  if (after == ticks.end()) return figure(ticks.back());
  if (after == ticks.begin()) return figure(*after);
  const DemoTick& before = *std::prev(after);
  const double part = to_seconds(at - before.at) / to_seconds(after->at - before.at);
  return figure(before) + part * (figure(*after) - figure(before));
}

double DemoSeries::sent_rate(std::uint32_t server, std::uint32_t nic, Instant from, Instant to) const {
  return to <= from ? 0 : (sent(server, nic, to) - sent(server, nic, from)) / to_seconds(to - from);
}

double DemoSeries::sent_share(std::uint32_t server, std::uint32_t nic, Instant from, Instant to) const {
  double all = 0;
  for (std::uint32_t other = 0; other < nics_; ++other) all += sent_rate(server, other, from, to);
  return all > 0 ? sent_rate(server, nic, from, to) / all : 0;
}

}  // namespace r2ccl::apps
