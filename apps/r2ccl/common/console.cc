#include "apps/r2ccl/common/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace r2ccl::apps {
namespace {

constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kEraseLine = "\r\033[K";

std::string_view escape(Colour colour) {
  switch (colour) {
    case Colour::kPlain:
      return "";
    case Colour::kBold:
      return "\033[1m";
    case Colour::kDim:
      return "\033[2m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kBlue:
      return "\033[34m";
  }
  return "";
}

void write_through(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

void Console::line(std::string_view text) {
  out(fmt::format("{}\n", text));
}

void Console::error(std::string_view command, std::string_view sentence) {
  progress("");
  err(fmt::format("{}: {}\n", command, sentence));
}

std::string Console::paint(Colour colour, std::string_view text) const {
  if (!out_is_terminal() || colour == Colour::kPlain) return std::string(text);
  return fmt::format("{}{}{}", escape(colour), text, kReset);
}

void Console::progress(std::string_view text) {
  if (!err_is_terminal() || (text.empty() && !progress_shown_)) return;
  err(fmt::format("{}{}", kEraseLine, text));
  progress_shown_ = !text.empty();
}

StandardConsole::StandardConsole()
    : out_is_terminal_(isatty(STDOUT_FILENO) == 1), err_is_terminal_(isatty(STDERR_FILENO) == 1) {}

void StandardConsole::out(std::string_view text) {
  write_through(stdout, text);
}

void StandardConsole::err(std::string_view text) {
  write_through(stderr, text);
}

}  // namespace r2ccl::apps
