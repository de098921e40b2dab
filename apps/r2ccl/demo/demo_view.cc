#include "apps/r2ccl/demo/demo_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kLabel = 10;  // columns of "server 0  "
constexpr std::size_t kFigure = 6;  // of " 58   " after a bar
constexpr std::size_t kBarMin = 3;
constexpr Duration kWindow = 400ms;  // rates are taken over
constexpr Duration kDelay = 60ms;    // what the ranks have reported by now

Colour colour_of(NicMark mark) {
  switch (mark) {
    case NicMark::kFine:
      return Colour::kGreen;
    case NicMark::kBroken:
      return Colour::kRed;
    case NicMark::kReturning:
      return Colour::kYellow;
  }
  return Colour::kPlain;
}

std::size_t bar_width(std::uint32_t nics) {
  const std::size_t cell = (kColumns - kLabel) / nics;
  return std::max(kBarMin, cell > kFigure ? cell - kFigure : 0);
}

std::string nic_cell(const DemoPlan& plan, double bytes_s, NicMark mark, const Console& console) {
  const double part = bytes_s / static_cast<double>(plan.nic_rate_bytes_s);
  const std::string figure = mark == NicMark::kBroken && bytes_s < 1e5 ? "✗" : fmt::format("{:.0f}", bytes_s / 1e6);
  return console.paint(colour_of(mark), bar_text(part, bar_width(plan.nics))) + ' ' +
         console.paint(mark == NicMark::kFine ? Colour::kPlain : colour_of(mark), fmt::format("{:<4}", figure)) + ' ';
}

std::string round_line(const DemoStory& story, const Console& console) {
  const DemoSeries& series = story.series();
  if (series.rounds() < 2) return "AllReduces begin";
  const std::size_t last = series.rounds() - 1;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i <= last; ++i) wrong += series.round(i).wrong;
  const std::string usual = story.usual_round() ? fmt::format(", usually {:.0f}", to_ms(*story.usual_round())) : "";
  const RoundFacts& facts = series.round(last);
  return fmt::format("AllReduce {}: {:.0f} ms{}   {}, health map {}\nlongest stall {}   wrong elements {}", last,
                     to_ms(series.took(last)), usual, console.paint(Colour::kBold, facts.algorithm),
                     facts.health_version, duration_text(story.longest_gap()),
                     console.paint(wrong == 0 ? Colour::kGreen : Colour::kRed, fmt::format("{}", wrong)));
}

}  // namespace

std::string bar_text(double part, std::size_t width) {
  static constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<std::size_t>(std::lround(std::clamp(part, 0.0, 1.0) * 8 * static_cast<double>(width)));
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  const std::size_t used = eighths / 8 + (eighths % 8 == 0 ? 0 : 1);
  for (std::size_t i = used; i < width; ++i) bar += i + 1 == width ? "▕" : " ";
  return bar;
}

std::string view_text(const DemoPlan& plan, const DemoStory& story, Duration elapsed, Instant now,
                      const Console& console) {
  std::string title = fmt::format("{:>6.1f} s  ", std::max(0.0, to_seconds(elapsed)));
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic)
    title += fmt::format("{:<{}}", fmt::format("NIC {}", nic), bar_width(plan.nics) + kFigure);
  std::string text = "\n" + console.paint(Colour::kDim, title) + "\n";
  const Instant to = now - kDelay;
  for (std::uint32_t server = 0; server < plan.servers; ++server) {
    text += fmt::format("server {}  ", server);
    for (std::uint32_t nic = 0; nic < plan.nics; ++nic) {
      const double rate = story.series().sent_rate(server, nic, to - kWindow, to);
      text += nic_cell(plan, rate, story.mark(server, nic), console);
    }
    text += "\n";
  }
  return text + console.paint(Colour::kDim, "          each NIC's MB/s sent") + "\n" + round_line(story, console) +
         "\n";
}

void LiveView::draw(const std::string& picture, Instant now) {
  next_ = now + kEvery;
  const std::string before = erasing();
  picture_ = picture;
  console_.out(before + picture_);
}

void LiveView::line(std::string_view text) {
  const std::string picture = picture_;
  const std::string before = erasing();
  picture_ = picture;
  console_.out(fmt::format("{}{}\n{}", before, text, picture_));
}

void LiveView::erase() {
  if (const std::string before = erasing(); !before.empty()) console_.out(before);
}

std::string LiveView::erasing() {
  const std::string picture = std::exchange(picture_, {});
  const auto lines = std::ranges::count(picture, '\n');
  return lines == 0 ? "" : fmt::format("\033[{}A\r\033[J", lines);
}

}  // namespace r2ccl::apps
