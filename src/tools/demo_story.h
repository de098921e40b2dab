#pragma once
// What happened in a demo, put together from what its processes report: per fault when it was noticed, repaired and over, and
// what it cost. Pure: reports and the time come in, lines and the summary come out.
//
//   reports about a NIC with a fault                                     the fault is
//   fault injected                                                       begun
//   first path of the NIC suspect or down, at either end                 noticed
//   every path end that went down has the other end's fence              repaired (its chunks are replayed at that moment)
//   fault healed                                                         healed; a reset heals itself
//   all rail paths of the NIC trusted again                              back

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/console.h"
#include "tools/demo_plan.h"
#include "tools/demo_report.h"

namespace r2ccl::tools {

struct FaultStory {
  FaultSpec spec;
  std::optional<Instant> begun, noticed, repaired, healed, back;
  Cause cause = Cause::kNone;
  std::string verdict;
  std::size_t paths_down = 0;
  std::uint64_t resent_bytes = 0;
  std::set<std::string> resent_over;                                 // the senders' NICs, "server:nic"
  Duration longest_gap{};                                            // without a chunk between the server and a peer
  double before_bytes_s = 0, during_bytes_s = 0, after_bytes_s = 0;  // all servers together
  double share_before = 0, share_during = 0;                         // of what the server sends, over this NIC
};

struct DemoSummary {
  std::vector<FaultStory> faults;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t lost_messages = 0;  // sent and not received, or the other way round
  Duration length{};
};

class DemoStory final {
 public:
  using Print = std::function<void(Instant at, Colour colour, const std::string& text)>;
  // Reports of different processes come in some disorder; what is younger than this is not concluded from.
  static constexpr Duration kCertain = 60ms;

  DemoStory(const DemoPlan& plan, Instant start, Print print);

  void on_report(std::uint32_t rank, const Json& report);
  // Prints what is certain by now.
  void settle(Instant now);
  // The streams end: paths that go down from now on are no news.
  void close(Instant end) { end_ = end; }
  // Every fault has begun and healed, and every NIC that went away is back; faults without an end are not waited for.
  bool all_over() const;
  bool all_totals() const { return totals_.size() == plan_.servers; }
  DemoSummary summary() const;  // after close()

 private:
  struct PathEnd {
    std::uint32_t rank, peer;
    std::uint8_t here, there;
    friend auto operator<=>(const PathEnd&, const PathEnd&) = default;
  };
  struct Chapter {
    FaultStory facts;
    std::set<PathEnd> unfenced;  // went down, fence of the other end not seen
    std::set<PathEnd> away;      // rail paths that went down and are not trusted again
    std::set<PathEnd> paths;     // that went down, named from the lower rank
    Instant last_down{};
    bool told_noticed = false, told_repaired = false, told_back = false;
  };

  void on_event(std::uint32_t rank, const DemoEvent& event);
  void on_fault_event(std::uint32_t rank, const DemoEvent& event);
  void on_path_down(Chapter& chapter, const PathEnd& end, const DemoEvent& event);
  void on_gap(std::uint32_t rank, const DemoGap& gap);
  void on_resent(std::uint32_t rank, const DemoResent& resent);
  Chapter* chapter_of(std::uint32_t server, std::uint64_t number);
  Chapter* chapter_about(const PathEnd& end, Instant at);
  Chapter* latest_before(Instant at);
  void tell(Chapter& chapter, Instant now);
  void tell_slow(const Chapter& chapter);
  void measure(std::size_t index, FaultStory& story) const;
  double rate(Instant from, Instant to) const;
  double share(const FaultSpec& spec, Instant from, Instant to) const;

  const DemoPlan plan_;
  const Instant start_;
  Instant end_ = kNever;
  const Print print_;
  std::vector<Chapter> chapters_;                         // as plan_.faults
  std::map<std::uint32_t, std::vector<DemoTick>> ticks_;  // by rank
  std::map<std::uint32_t, DemoTotals> totals_;
};

std::string summary_text(const DemoSummary& summary, const Console& console);
std::string summary_json(const DemoSummary& summary, const DemoPlan& plan, Instant start);

}  // namespace r2ccl::tools
