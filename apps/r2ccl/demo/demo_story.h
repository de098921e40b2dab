#pragma once
// What happened in a demo, put together from what its ranks report and what was done to NICs: per fault when it was
// noticed, repaired and over, and what it cost. Pure: reports and the time come in, lines and the summary come out.
//
//   about a NIC with a fault                                             the fault is
//   the kernel was asked for it, or the library injected it              begun
//   first path of the NIC suspect or down, at either end                 noticed
//   every path end that went down has the other end's fence              repaired: its chunks are replayed at once
//   it was taken away                                                    healed; a reset heals itself
//   all rail paths of the NIC trusted again                              back
//
// A slow NIC need not lose a path. It is noticed also by a new health map; repaired as soon as a new plan is in use or
// an AllReduce takes less than twice the usual time; back when its server sends over it nearly as much as before, or as
// over the others.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/r2ccl/common/console.h"
#include "apps/r2ccl/demo/demo_plan.h"
#include "apps/r2ccl/demo/demo_report.h"
#include "apps/r2ccl/demo/demo_series.h"

namespace r2ccl::apps {

struct FaultStory {
  FaultSpec spec;
  std::optional<Instant> begun, noticed, repaired, healed, back;
  Cause cause = Cause::kNone;
  std::string verdict;
  std::size_t paths_down = 0;
  std::uint64_t resent_bytes = 0;
  std::set<std::string> resent_over;  // the senders' NICs, "server:nic"
  Duration longest_gap{};             // in which some rank placed no chunk
  bool mended = false;                // nothing of it is left open
  // Measured at the end.
  Duration lost{};  // of AllReduces beyond the usual, until it was repaired
  std::optional<Duration> round_before, round_during, round_after;  // medians; during: from the repair on
  double share_before = 0, share_during = 0;                        // of what the server sends, over this NIC
};

struct DemoSummary {
  std::vector<FaultStory> faults;
  std::uint64_t rounds = 0;   // AllReduces
  std::uint64_t checked = 0;  // elements, on all ranks
  std::uint64_t wrong = 0;
  std::uint64_t bytes = 0;  // summed
  Duration length{};

  // Something was done, every element was right and every fault is mended.
  bool good() const;
};

enum class NicMark : std::uint8_t { kFine, kBroken, kReturning };

class DemoStory final {
 public:
  using Print = std::function<void(Instant at, Colour colour, const std::string& text)>;
  // Reports of different ranks come in some disorder, so nothing is concluded from reports younger than this.
  static constexpr Duration kCertain = 60ms;

  DemoStory(const DemoPlan& plan, Instant start, Print print);

  void on_report(std::uint32_t rank, const Json& report);
  void on_begun(std::size_t fault, Instant at);
  void on_healed(std::size_t fault, Instant at);
  // Prints what is certain by now.
  void settle(Instant now);
  // The ranks end: paths that go down from now on are no news.
  void close(Instant end) { end_ = end; }
  // Every fault has begun and healed, and every NIC that went away is back; faults without an end are not waited for.
  bool all_over() const;
  bool all_totals() const { return totals_.size() == plan_.servers; }
  DemoSummary summary() const;  // after close()

  const DemoSeries& series() const { return series_; }
  NicMark mark(std::uint32_t server, std::uint32_t nic) const;
  // Of the faults so far: the usual AllReduce before the first of them, and the longest gap of any.
  std::optional<Duration> usual_round() const;
  Duration longest_gap() const;

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

    // All it does is to be slow.
    bool only_slow() const { return facts.spec.kind == FaultKind::kSlow && paths.empty(); }
    bool settled() const;  // nothing of it is left open
  };

  void on_event(std::uint32_t rank, const DemoEvent& event);
  void on_fault_event(std::uint32_t rank, const DemoEvent& event);
  void on_path_down(Chapter& chapter, const PathEnd& end, const DemoEvent& event);
  void on_gap(const DemoGap& gap);
  void on_resent(std::uint32_t rank, const DemoResent& resent);
  void on_round(std::uint32_t rank, const DemoRound& round);
  Chapter* chapter_of(std::uint32_t server, std::uint64_t number);
  Chapter* chapter_about(const PathEnd& end, Instant at);
  Chapter* latest_before(Instant at);
  void watch_slow(Chapter& chapter, Instant now);
  void tell(Chapter& chapter, Instant now);
  void tell_noticed(const FaultStory& facts);
  void tell_repaired(const Chapter& chapter);
  void measure(std::size_t index, FaultStory& story) const;

  const DemoPlan plan_;
  const Instant start_;
  Instant end_ = kNever;
  const Print print_;
  std::vector<Chapter> chapters_;  // as plan_.faults
  DemoSeries series_;
  std::string algorithm_;  // that rank 0 used last
  std::uint64_t health_version_ = 0;
  std::map<std::uint32_t, DemoTotals> totals_;
};

std::string summary_text(const DemoSummary& summary, const Console& console);
std::string summary_json(const DemoSummary& summary, const DemoPlan& plan, Instant start);

}  // namespace r2ccl::apps
