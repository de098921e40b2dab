#pragma once
// The demo as a page to look at afterwards: what every NIC sent, every AllReduce, every event, in one file that needs
// nothing else and may fetch nothing (its own policy forbids it). Pure.

#include <string>
#include <vector>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/demo/demo_story.h"

namespace r2ccl::apps {

// A line the demo printed.
struct DemoLine {
  Instant at{};
  Colour colour = Colour::kPlain;
  std::string text;
};

// Everything the page shows, times in seconds or milliseconds after the start.
//   nics    by server, by NIC: megabytes per second that were sent, one figure for each step_ms
//   rounds  [done at s, took ms, algorithm, health version]
//   events  [at s, kind, text]; kinds: fault, heal, plan, note
//   faults  as in summary_json(), with title
Json page_model(const DemoPlan& plan, const DemoStory& story, const DemoSummary& summary,
                const std::vector<DemoLine>& lines, Instant start);

std::string page_html(const Json& model);

// The parts of the page that are the same for every run.
extern const char* const kPageStyle;
extern const char* const kPageBody;
extern const char* const kPageScript;

}  // namespace r2ccl::apps
