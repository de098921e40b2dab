// How the demo's summary is printed.

#include <fmt/format.h>

#include "base/units.h"
#include "tools/demo_story.h"
#include "tools/demo_tap.h"
#include "tools/table.h"

namespace r2ccl::tools {
namespace {

std::string after(const std::optional<Instant>& at, const std::optional<Instant>& since) {
  if (!at || !since) return "-";
  return *at - *since < 1us ? "at once" : duration_text(*at - *since);
}

std::string megabytes(double bytes_s) {
  return fmt::format("{:.0f}", bytes_s / 1e6);
}

std::string gap_text(Duration gap) {
  return gap > Duration::zero() ? duration_text(gap) : fmt::format("< {}", duration_text(DemoTap::kGapMin));
}

Json since_ms(const std::optional<Instant>& at, Instant since) {
  return at ? Json(to_ms(*at - since)) : Json();
}

Json fault_json(const FaultStory& fault, Instant start) {
  return {{"server", fault.spec.server.value},
          {"nic", fault.spec.nic.value},
          {"kind", to_text(fault.spec.kind)},
          {"verdict", fault.verdict},
          {"at_ms", since_ms(fault.begun, start)},
          {"noticed_ms", since_ms(fault.noticed, start)},
          {"repaired_ms", since_ms(fault.repaired, start)},
          {"stall_ms", to_ms(fault.longest_gap)},
          {"resent_bytes", fault.resent_bytes},
          {"returned_ms", since_ms(fault.back, start)},
          {"before_bytes_s", fault.before_bytes_s},
          {"during_bytes_s", fault.during_bytes_s},
          {"after_bytes_s", fault.after_bytes_s}};
}

}  // namespace

std::string summary_text(const DemoSummary& summary, const Console& console) {
  Table table({{"fault"},
               {"noticed", Align::kRight},
               {"repaired", Align::kRight},
               {"stall", Align::kRight},
               {"resent", Align::kRight},
               {"back", Align::kRight},
               {"MB/s before", Align::kRight},
               {"during", Align::kRight},
               {"after", Align::kRight}});
  for (const FaultStory& fault : summary.faults) {
    table.add(
        {fmt::format("server {} NIC {}: {}", fault.spec.server.value, fault.spec.nic.value, begin_text(fault.spec)),
         after(fault.noticed, fault.begun), after(fault.repaired, fault.begun), gap_text(fault.longest_gap),
         fault.resent_bytes > 0 ? bytes_text(fault.resent_bytes) : "-", after(fault.back, fault.healed),
         megabytes(fault.before_bytes_s), megabytes(fault.during_bytes_s), megabytes(fault.after_bytes_s)});
  }
  const bool good = summary.wrong_bytes == 0 && summary.lost_messages == 0;
  return fmt::format("{}\n{} messages, {} in {:.1f} s, every byte checked: {}\n", table.text(console), summary.messages,
                     bytes_text(summary.bytes), to_seconds(summary.length),
                     console.paint(good ? Colour::kGreen : Colour::kRed,
                                   fmt::format("{} wrong, {} lost", summary.wrong_bytes, summary.lost_messages)));
}

std::string summary_json(const DemoSummary& summary, const DemoPlan& plan, Instant start) {
  auto faults = Json::array();
  for (const FaultStory& fault : summary.faults) faults.push_back(fault_json(fault, start));
  return Json{{"servers", plan.servers},       {"nics", plan.nics},      {"seconds", to_seconds(summary.length)},
              {"messages", summary.messages},  {"bytes", summary.bytes}, {"wrong", summary.wrong_bytes},
              {"lost", summary.lost_messages}, {"faults", faults}}
             .dump() +
         "\n";
}

}  // namespace r2ccl::tools
