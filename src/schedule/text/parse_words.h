#pragma once
// The small pieces that the readers of lines and of steps share. Errors carry no line number here; parse.cc adds it.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace r2ccl {

// The words of a line, one after another.
class Words final {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  // Empty at the end.
  std::string_view next() {
    const std::size_t begin = std::min(rest_.find_first_not_of(kBlanks), rest_.size());
    rest_.remove_prefix(begin);
    const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
    rest_.remove_prefix(word.size());
    return word;
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r";
  std::string_view rest_;
};

inline std::unexpected<Error> misuse(std::string what) {
  return fail(Fault::kMisuse, std::move(what));
}

// For messages: short, and nothing that a terminal would act on.
inline std::string quoted(std::string_view word) {
  constexpr std::size_t kShown = 60;
  std::string out = "'";
  for (const char c : word.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (word.size() > kShown ? "…'" : "'");
}

// All of `text`, or nothing; so also nothing when it does not fit.
template <std::integral T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <std::integral T>
Status read_number(std::string_view name, std::string_view text, T min, T max, T& out) {
  const std::optional<T> value = whole_number<T>(text);
  if (!value || *value < min || *value > max) {
    return misuse(fmt::format("{} must be a number from {} to {}, not {}", name, min, max, quoted(text)));
  }
  out = *value;
  return {};
}

// "3" or "3..7", both ends included.
inline Status read_range(std::string_view name, std::string_view word, std::uint32_t max, std::uint32_t& first,
                         std::uint32_t& last) {
  const std::size_t dots = word.find("..");
  if (Status status = read_number(name, word.substr(0, dots), 0u, max, first); !status) return status;
  last = first;
  if (dots == std::string_view::npos) return {};
  return read_number(fmt::format("the end of the range of {}", name), word.substr(dots + 2), first, max, last);
}

inline Status expect(Words& words, std::string_view word) {
  const std::string_view found = words.next();
  if (found == word) return {};
  return misuse(fmt::format("{} expected, not {}", word, found.empty() ? "the end of the line" : quoted(found)));
}

inline Status expect_end(Words& words) {
  const std::string_view found = words.next();
  if (found.empty()) return {};
  return misuse(fmt::format("the line should end before {}", quoted(found)));
}

// "key=value"; key is empty where there is no '='.
struct Field {
  std::string_view key;
  std::string_view value;
};
inline Field field_of(std::string_view word) {
  const std::size_t at = word.find('=');
  if (at == std::string_view::npos) return {{}, word};
  return {word.substr(0, at), word.substr(at + 1)};
}

}  // namespace r2ccl
