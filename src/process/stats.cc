#include "process/stats.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "comm/agreement/nic_views.h"

namespace r2ccl {
namespace {

// Cut where it does not fit; the last byte stays zero.
void put(std::span<char> field, std::string_view text) {
  std::ranges::copy(text.substr(0, field.size() - 1), field.begin());
}

Stats stats_of(Engine& engine, const Telemetry& telemetry, const Communicator& communicator) {
  Stats stats;
  stats.process = static_cast<std::uint64_t>(::getpid());
  stats.server = engine.self().server.value;
  stats.rank = communicator.rank();
  stats.size = communicator.size();
  stats.health_version = communicator.plan_in_use().health_version;
  stats.counters = telemetry.counters;
  put(stats.algorithm, communicator.plan_in_use().algorithm);
  for (const NicView& view : nic_views(engine)) {
    if (stats.nic_count == Stats::kNicsMax) break;
    Stats::Nic& nic = stats.nics[stats.nic_count++];
    put(nic.name, view.name);
    put(nic.state, view.state);
    nic.rate_bytes_s = view.rate_bytes_s;
  }
  return stats;
}

}  // namespace

StatsWriter::StatsWriter(const Settings& settings, std::size_t endpoint, Log& log) {
  if (settings.stats == "off") return;
  auto page = StatsPage::create(settings.stats, fmt::format("{}.{}", ::getpid(), endpoint));
  if (page) {
    page_.emplace(std::move(*page));
  } else {
    log.write(LogLevel::kInfo, fmt::format("'r2ccl status' will not show this process: {}.", page.error().what));
  }
}

void StatsWriter::on_progress(const Reached& reached, Instant now, Engine& engine, const Telemetry& telemetry,
                              const Communicator& communicator) {
  if (!page_) return;
  page_->set_reached(reached);
  if (now < next_) return;
  next_ = now + kEvery;
  page_->publish(stats_of(engine, telemetry, communicator));
}

}  // namespace r2ccl
