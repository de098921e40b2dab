#pragma once
// The demo as it runs, on a terminal: lines that stay, and below them a picture that is drawn again and again in place.

#include <string>
#include <string_view>

#include "apps/r2ccl/common/console.h"
#include "apps/r2ccl/demo/demo_plan.h"
#include "apps/r2ccl/demo/demo_story.h"

namespace r2ccl::apps {

// One picture, 80 columns wide at most where there are 4 NICs or fewer: what every NIC sends, the AllReduce under way,
// its algorithm and the longest stall. Pure.
std::string view_text(const DemoPlan& plan, const DemoStory& story, Duration elapsed, Instant now,
                      const Console& console);

// A bar of `width` columns, filled to `part` of it in eighths of a column. Pure.
std::string bar_text(double part, std::size_t width);

// Keeps the picture last on the terminal. Where there is none, only the lines are printed.
class LiveView final {
 public:
  static constexpr Duration kEvery = 125ms;

  explicit LiveView(Console& console) : console_(console) {}
  ~LiveView() { erase(); }
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  bool due(Instant now) const { return console_.out_is_terminal() && now >= next_; }
  void draw(const std::string& picture, Instant now);
  void line(std::string_view text);  // above the picture
  void erase();

 private:
  std::string erasing();  // what takes the picture away

  Console& console_;
  std::string picture_;
  Instant next_{};
};

}  // namespace r2ccl::apps
