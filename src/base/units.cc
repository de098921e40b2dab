#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <span>

namespace r2ccl {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t factor;
};

constexpr Unit kDurationUnits[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"s", 1'000'000'000},
                                   {"m", 60'000'000'000},
                                   {"min", 60'000'000'000},
                                   {"h", 3'600'000'000'000}};
constexpr Unit kBytesUnits[] = {{"", 1},
                                {"b", 1},
                                {"k", 1ull << 10},
                                {"kb", 1ull << 10},
                                {"kib", 1ull << 10},
                                {"m", 1ull << 20},
                                {"mb", 1ull << 20},
                                {"mib", 1ull << 20},
                                {"g", 1ull << 30},
                                {"gb", 1ull << 30},
                                {"gib", 1ull << 30},
                                {"t", 1ull << 40},
                                {"tb", 1ull << 40},
                                {"tib", 1ull << 40}};
constexpr Unit kRateUnits[] = {
    {"bit", 1}, {"kbit", 1'000}, {"mbit", 1'000'000}, {"gbit", 1'000'000'000}, {"tbit", 1'000'000'000'000}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::optional<std::uint64_t> whole_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> factor_of(std::string_view unit, std::span<const Unit> units) {
  std::string lower(unit);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const Unit& known : units) {
    if (known.name == lower) return known.factor;
  }
  return std::nullopt;
}

// digits [. digits] unit, exact in integers; nothing on malformed or too large text.
std::optional<std::uint64_t> parse_amount(std::string_view text, std::span<const Unit> units) {
  constexpr std::size_t kFractionDigitsMax = 9;
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty() || fraction.size() > kFractionDigitsMax) return std::nullopt;
  }
  const auto number = whole_number(whole);
  const auto factor = factor_of(text, units);
  if (!number || !factor) return std::nullopt;
  std::uint64_t value = 0;
  if (__builtin_mul_overflow(*number, *factor, &value)) return std::nullopt;
  std::uint64_t part = 0;  // the fraction's digits as a whole number, in units of factor / scale
  std::uint64_t scale = 1;
  for (const char digit : fraction) {
    part = part * 10 + static_cast<std::uint64_t>(digit - '0');
    scale *= 10;
  }
  part = static_cast<std::uint64_t>(static_cast<unsigned __int128>(part) * *factor / scale);
  if (__builtin_add_overflow(value, part, &value)) return std::nullopt;
  return value;
}

// At most three digits that matter, no trailing ".0".
std::string short_number(double value) {
  const double size = value < 0 ? -value : value;
  return size >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration::zero();
  const auto count = parse_amount(text, kDurationUnits);
  if (!count || *count > static_cast<std::uint64_t>(Duration::max().count()))
    return fail(Fault::kMisuse, fmt::format("'{}' is no duration; write 200us, 150ms, 60s or 10m", text));
  return Duration(static_cast<Duration::rep>(*count));
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto count = parse_amount(text, kBytesUnits);
  if (!count) return fail(Fault::kMisuse, fmt::format("'{}' is no size; write 4096, 256K, 4M or 1G", text));
  return *count;
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  const auto bits = parse_amount(text, kRateUnits);
  if (!bits) return fail(Fault::kMisuse, fmt::format("'{}' is no rate; write 50mbit or 400gbit", text));
  return *bits / 8;
}

Result<std::uint64_t> parse_integer(std::string_view text) {
  const auto value = whole_number(text);
  if (!value) return fail(Fault::kMisuse, fmt::format("'{}' is no whole number", text));
  return *value;
}

std::string duration_text(Duration duration) {
  const double ns = static_cast<double>(duration.count());
  const double size = ns < 0 ? -ns : ns;
  if (size >= 1e9) return fmt::format("{} s", short_number(ns / 1e9));
  if (size >= 1e6) return fmt::format("{} ms", short_number(ns / 1e6));
  if (size >= 1e3) return fmt::format("{} us", short_number(ns / 1e3));
  return fmt::format("{} ns", duration.count());
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t at = 0;
  for (; value >= 1024 && at + 1 < std::size(kNames); ++at) value /= 1024;
  return fmt::format("{} {}", short_number(value), kNames[at]);
}

std::string rate_text(std::uint64_t bytes_s) {
  constexpr const char* kNames[] = {"bit/s", "kbit/s", "mbit/s", "gbit/s", "tbit/s"};
  double value = static_cast<double>(bytes_s) * 8;
  std::size_t at = 0;
  for (; value >= 1000 && at + 1 < std::size(kNames); ++at) value /= 1000;
  return fmt::format("{} {}", short_number(value), kNames[at]);
}

}  // namespace r2ccl
