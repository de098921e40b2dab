#include "apps/r2ccl/demo/demo_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kStep = 50ms;
constexpr Duration kSmooth = 150ms;  // chunks are large: narrower windows show their size, not the rate

double rounded(double value, double places) {
  return std::round(value * places) / places;
}

const char* kind_of(Colour colour) {
  switch (colour) {
    case Colour::kYellow:
      return "fault";
    case Colour::kGreen:
      return "heal";
    case Colour::kBlue:
      return "plan";
    default:
      return "note";
  }
}

Json nic_series(const DemoSeries& series, std::uint32_t server, std::uint32_t nic, Instant start, Duration length) {
  Json figures = Json::array();
  for (Duration at{}; at <= length; at += kStep) {
    const Instant middle = start + at;
    const Instant from = std::max(start, middle - kSmooth / 2);
    const Instant to = std::min(start + length, middle + kSmooth / 2);
    figures.push_back(rounded(series.sent_rate(server, nic, from, to) / 1e6, 10));
  }
  return figures;
}

Json round_list(const DemoSeries& series, Instant start) {
  Json rounds = Json::array();
  for (std::size_t i = 1; i < series.rounds(); ++i) {
    const RoundFacts& facts = series.round(i);
    rounds.push_back({rounded(to_seconds(facts.at - start), 1e4), rounded(to_ms(series.took(i)), 100), facts.algorithm,
                      facts.health_version});
  }
  return rounds;
}

// What is between tags must not look like one.
std::string inside_script(const Json& model) {
  std::string text;
  for (const char c : json_text(model)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

Json page_model(const DemoPlan& plan, const DemoStory& story, const DemoSummary& summary,
                const std::vector<DemoLine>& lines, Instant start) {
  Json model = parse_json(summary_json(summary, plan, start));
  model["where"] = where_text(plan);
  model["good"] = summary.good();
  model["rate_mb_s"] = static_cast<double>(plan.nic_rate_bytes_s) / 1e6;
  model["collective_bytes"] = bytes_text(plan.bytes);
  model["usual_ms"] = story.usual_round() ? Json(to_ms(*story.usual_round())) : Json();
  model["step_ms"] = to_ms(kStep);
  for (std::size_t i = 0; i < summary.faults.size(); ++i) {
    const FaultStory& fault = summary.faults[i];
    model["faults"][i]["title"] = begin_text(fault.spec);
    model["faults"][i]["resent"] = fault.resent_bytes > 0 ? bytes_text(fault.resent_bytes) : "nothing";
  }
  std::uint64_t resent = 0;
  for (const FaultStory& fault : summary.faults) resent += fault.resent_bytes;
  model["resent"] = resent > 0 ? bytes_text(resent) : "nothing";
  model["nic_mb_s"] = Json::array();
  for (std::uint32_t server = 0; server < plan.servers; ++server) {
    Json nics = Json::array();
    for (std::uint32_t nic = 0; nic < plan.nics; ++nic)
      nics.push_back(nic_series(story.series(), server, nic, start, summary.length));
    model["nic_mb_s"].push_back(nics);
  }
  model["rounds"] = round_list(story.series(), start);
  std::vector<DemoLine> sorted = lines;
  std::ranges::stable_sort(sorted, {}, &DemoLine::at);
  model["events"] = Json::array();
  for (const DemoLine& line : sorted) {
    const std::size_t first = line.text.find_first_not_of(" +-");
    model["events"].push_back({rounded(to_seconds(line.at - start), 1e4), kind_of(line.colour),
                               first == std::string::npos ? "" : line.text.substr(first)});
  }
  return model;
}

std::string page_html(const Json& model) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>R²CCL demo</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}\n<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n</body>\n</html>\n",
      kPageStyle, kPageBody, inside_script(model), kPageScript);
}

}  // namespace r2ccl::apps
