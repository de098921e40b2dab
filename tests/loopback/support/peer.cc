#include "tests/loopback/support/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace r2ccl::loopback {

Settings quick_settings() {
  Settings settings;
  settings.debug = "VERSION";  // errors only: faults are expected here
  settings.retry_max = 200ms;
  settings.probation_min = 50ms;
  settings.probation_max = 100ms;
  return settings;
}

Peer::Peer(std::size_t end, const Settings& settings, EventLog& log) : log_(log), server_{end} {
  Settings mine = settings;
  mine.server = end;
  for (std::size_t nic = 0; nic < kNics; ++nic) mine.nics.push_back(fmt::format("127.0.{}.{}", 20 + end, 1 + nic));
  mine.fault = "at=0s server=255 nic=0 kind=reset";  // nobody's, but it makes faults possible
  ProcessOptions options;
  options.rank = static_cast<std::uint32_t>(end);
  options.host = fmt::format("end{}", end);
  auto process = Process::create(mine, options);
  if (!process) throw std::runtime_error(process.error().what);
  process_ = std::move(*process);
  driver().with_engine([&](Engine&) { process_->telemetry().set_listener(this); });
}

Peer::~Peer() = default;

UniqueId Peer::host() {
  auto id = process_->host(2);
  if (!id) throw std::runtime_error(id.error().what);
  return *id;
}

void Peer::join(const UniqueId& id, const Secret& group_secret) {
  if (const Status joined = process_->join(id, kStartWithin); !joined) throw std::runtime_error(joined.error().what);
  driver().with_engine([&](Engine& engine) {
    for (const ProcessInfo& process : engine.roster())
      if (process.process != self()) other_ = process;
    engine.session(other_.process).join(kGroup, group_secret);
  });
  if (!settle(kStartWithin)) throw std::runtime_error("not all paths opened in time");
}

Status Peer::inject(FaultSpec spec) {
  spec.server = server_;
  Status status;
  driver().with_engine([&](Engine&) { status = process_->faults()->inject(spec, clock_now()); });
  return status;
}

void Peer::drain(NicId nic) {
  driver().with_engine([&](Engine& engine) { engine.drain(nic, clock_now()); });
}

void Peer::undrain(NicId nic) {
  driver().with_engine([&](Engine& engine) { engine.undrain(nic, clock_now()); });
}

bool Peer::settle(Duration within) {
  const auto settled = [this](Engine& engine) {
    if (process_->faults()->waiting_or_active() != 0) return false;
    const std::vector<PathView> paths = engine.session(other_.process).paths();
    return std::ranges::all_of(
        paths, [](const PathView& path) { return path.nic_here != path.nic_there || path.state == PathState::kUp; });
  };
  return driver().wait_until(settled, clock_now() + within);
}

bool Peer::wait_for_state(NicId nic, PathState state, Duration within) {
  const auto reached = [&](Engine& engine) {
    const std::vector<PathView> paths = engine.session(other_.process).paths();
    return std::ranges::all_of(paths, [&](const PathView& path) {
      return path.nic_here != nic || path.nic_there != nic || path.state == state;
    });
  };
  return driver().wait_until(reached, clock_now() + within);
}

Counters Peer::counters() {
  Counters counters;
  driver().with_engine([&](Engine&) { counters = process_->telemetry().counters; });
  return counters;
}

StreamCounters Peer::stream_counters() {
  StreamCounters counters;
  driver().with_engine([&](Engine&) { counters = process_->stream_counters(); });
  return counters;
}

}  // namespace r2ccl::loopback
