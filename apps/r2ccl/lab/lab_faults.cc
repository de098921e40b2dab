#include "apps/r2ccl/lab/lab_faults.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <string_view>

#include "apps/r2ccl/common/command.h"
#include "telemetry/stats_page.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kPollMax = 1h;
constexpr Duration kLookEvery = 1ms;  // while a fault waits for the ranks to come somewhere

Status make(lab::BuiltLab& cluster, const lab::NicChange& change, std::string& note) {
  if (const Status set = cluster.set(change.server, change.nic, change.state); !set) return set;
  if (!change.reset) return {};
  const auto count = cluster.reset(change.server, change.nic);
  if (!count) return std::unexpected(count.error());
  note = fmt::format(", {} connections", *count);
  return {};
}

constexpr std::string_view kManagementWord = "nic=mgmt";
constexpr NicId kManagementMark{255};  // no NIC of a lab has this number

// Faults name NICs by number, so the management network gets one until they are read.
std::string with_management_marked(std::string text) {
  for (auto at = text.find(kManagementWord); at != std::string::npos; at = text.find(kManagementWord))
    text.replace(at, kManagementWord.size(), fmt::format("nic={}", kManagementMark.value));
  return text;
}

std::string name_of(NicId nic, const lab::LabPlan& plan) {
  return nic == plan.management() ? "mgmt" : fmt::format("{}", nic.value);
}

bool make_and_tell(lab::BuiltLab& cluster, const lab::NicChange& change, Duration elapsed, Console& console) {
  std::string note;
  const Status made = make(cluster, change, note);
  if (made && change.why.empty()) return true;
  if (!made) note = fmt::format(" was not done: {}", made.error().what);
  console.err(fmt::format("# lab: {:.3f} s: server {} nic {}: {}{}\n", to_seconds(elapsed), change.server.value,
                          name_of(change.nic, cluster.plan()), change.why, note));
  return made.has_value();
}

}  // namespace

Result<std::vector<FaultSpec>> lab_faults(const std::vector<std::string>& texts, const lab::LabPlan& plan) {
  std::vector<FaultSpec> all;
  for (const std::string& text : texts) {
    const auto faults = parse_faults(with_management_marked(text));
    if (!faults) return std::unexpected(faults.error());
    all.insert(all.end(), faults->begin(), faults->end());
  }
  for (FaultSpec& fault : all) {
    const bool management = fault.nic == kManagementMark;
    if (management && fault.kind == FaultKind::kSlow)
      return fail(Fault::kMisuse, "the management network has no rate that could be less");
    if (fault.server.value >= plan.servers || (fault.nic.value >= plan.nics && !management)) {
      return fail(Fault::kMisuse, fmt::format("fault '{}': there are {} servers with {} NICs, counted from 0, and mgmt",
                                              to_text(fault), plan.servers, plan.nics));
    }
    if (management) fault.nic = plan.management();
  }
  return all;
}

std::string stats_directory(const lab::LabPlan& plan) {
  return "/dev/shm/r2ccl/lab-" + plan.name;
}

bool drive_faults(lab::BuiltLab& cluster, lab::FaultClock& clock, int stop, Afterwards afterwards, Console& console) {
  const std::string pages = stats_directory(cluster.plan());
  const Instant start = steady_now();
  bool all_made = true;
  for (;;) {
    const Duration elapsed = steady_now() - start;
    const bool watching = clock.waits_for_ranks();
    if (watching) {
      for (const StatsView& view : read_stats(pages))
        clock.on_reached(view.reached.operation, view.reached.share_ppm, elapsed);
    }
    for (const lab::NicChange& change : clock.step(elapsed))
      all_made &= make_and_tell(cluster, change, elapsed, console);
    const Duration next = clock.next();
    if (next == Duration::max() && !watching && afterwards == Afterwards::kReturn) return all_made;
    // Rounded up: a fault is never early, and the loop never spins.
    const Duration sleep = std::clamp<Duration>(next - (steady_now() - start), 0s, watching ? kLookEvery : kPollMax);
    pollfd entry{.fd = stop, .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(sleep);
    if (::poll(&entry, 1, static_cast<int>(ms.count())) > 0) return all_made;
  }
}

}  // namespace r2ccl::apps
