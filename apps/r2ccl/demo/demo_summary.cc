// How the demo's summary is printed.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "apps/r2ccl/demo/demo_story.h"
#include "apps/r2ccl/demo/demo_tap.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

std::string after(const std::optional<Instant>& at, const std::optional<Instant>& since) {
  if (!at || !since) return "-";
  return *at - *since < 1us ? "at once" : duration_text(*at - *since);
}

std::string gap_text(Duration gap) {
  return gap > Duration::zero() ? duration_text(gap) : fmt::format("< {}", duration_text(DemoTap::kGapMin));
}

std::string round_text(const std::optional<Duration>& round) {
  return round ? fmt::format("{:.0f}", to_ms(*round)) : "-";
}

std::string count_text(std::uint64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e9) return fmt::format("{:.2f} billion", number / 1e9);
  return number >= 1e6 ? fmt::format("{:.1f} million", number / 1e6) : fmt::format("{}", count);
}

Json since_ms(const std::optional<Instant>& at, Instant since) {
  return at ? Json(to_ms(*at - since)) : Json();
}
Json ms(const std::optional<Duration>& duration) {
  return duration ? Json(to_ms(*duration)) : Json();
}

Json fault_json(const FaultStory& fault, Instant start) {
  return {{"server", fault.spec.server.value},
          {"nic", fault.spec.nic.value},
          {"kind", to_text(fault.spec.kind)},
          {"verdict", fault.verdict},
          {"at_ms", since_ms(fault.begun, start)},
          {"noticed_ms", since_ms(fault.noticed, start)},
          {"repaired_ms", since_ms(fault.repaired, start)},
          {"healed_ms", since_ms(fault.healed, start)},
          {"returned_ms", since_ms(fault.back, start)},
          {"stall_ms", to_ms(fault.longest_gap)},
          {"lost_ms", to_ms(fault.lost)},
          {"resent_bytes", fault.resent_bytes},
          {"mended", fault.mended},
          {"before_ms", ms(fault.round_before)},
          {"during_ms", ms(fault.round_during)},
          {"after_ms", ms(fault.round_after)},
          {"share_before", fault.share_before},
          {"share_during", fault.share_during}};
}

}  // namespace

std::string summary_text(const DemoSummary& summary, const Console& console) {
  Table table({{"what failed"},
               {"at", Align::kRight},
               {"noticed", Align::kRight},
               {"repaired", Align::kRight},
               {"stall", Align::kRight},
               {"time lost", Align::kRight},
               {"resent", Align::kRight},
               {"back", Align::kRight},
               {"AllReduce before, during, after", Align::kRight}});
  std::size_t mended = 0;
  for (const FaultStory& fault : summary.faults) {
    mended += fault.mended ? 1 : 0;
    table.add({fmt::format("{}: {}", nic_text(fault.spec), begin_text(fault.spec)),
               fmt::format("{:.1f} s", to_seconds(fault.spec.at.time)), after(fault.noticed, fault.begun),
               after(fault.repaired, fault.begun), gap_text(fault.longest_gap),
               fmt::format("{:.0f} ms", to_ms(fault.lost)),
               fault.resent_bytes > 0 ? bytes_text(fault.resent_bytes) : "-", after(fault.back, fault.healed),
               fmt::format("{}, {}, {} ms", round_text(fault.round_before), round_text(fault.round_during),
                           round_text(fault.round_after))});
  }
  const bool good = summary.good();
  return fmt::format(
      "{}\n{} AllReduces of {} in {:.1f} s, {} elements checked: {}\n", table.text(console), summary.rounds,
      bytes_text(summary.rounds == 0 ? 0 : summary.bytes / summary.rounds), to_seconds(summary.length),
      count_text(summary.checked),
      console.paint(good ? Colour::kGreen : Colour::kRed,
                    fmt::format("{} wrong; {} of {} faults repaired", summary.wrong, mended, summary.faults.size())));
}

std::string summary_json(const DemoSummary& summary, const DemoPlan& plan, Instant start) {
  auto faults = Json::array();
  for (const FaultStory& fault : summary.faults) faults.push_back(fault_json(fault, start));
  return json_text(Json{{"servers", plan.servers},
                        {"nics", plan.nics},
                        {"lab", plan.in_lab},
                        {"seconds", to_seconds(summary.length)},
                        {"collectives", summary.rounds},
                        {"bytes", summary.bytes},
                        {"checked", summary.checked},
                        {"wrong", summary.wrong},
                        {"faults", faults}}) +
         "\n";
}

}  // namespace r2ccl::apps
