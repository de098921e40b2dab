#include "transport/fault/fault_spec.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/units.h"

namespace r2ccl {

namespace {

constexpr std::string_view kKinds = "down, cable, blackhole, reset, slow:50mbit or flap:200ms";
constexpr std::uint32_t kWholePpm = 1'000'000;

std::unexpected<Error> refuse(std::string_view text, std::string_view why) {
  return fail(Fault::kMisuse, fmt::format("fault '{}': {}", text, why));
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// Cuts the part before `separator` off `rest`.
std::string_view take_until(std::string_view& rest, std::string_view separators) {
  const auto end = rest.find_first_of(separators);
  const std::string_view head = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return head;
}

Result<Duration> bounded_duration(std::string_view text, Duration least) {
  const Result<Duration> value = parse_duration(text);
  if (!value) return value;
  if (*value < least || *value > kFaultTimeMax) {
    return fail(Fault::kMisuse,
                fmt::format("'{}' is not between {} and {}", text, duration_text(least), duration_text(kFaultTimeMax)));
  }
  return value;
}

// "40%", "12.5%": at most four decimals.
std::optional<std::uint32_t> parse_share_ppm(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  std::string_view rest = text;
  const std::string_view whole = take_until(rest, ".");
  if (whole.size() > 3 || rest.size() > 4 || text.ends_with('.')) return std::nullopt;
  const auto percent = parse_integer(whole);
  if (!percent) return std::nullopt;
  std::uint64_t ppm = *percent * 10'000;
  if (!rest.empty()) {
    const auto decimals = parse_integer(std::string(rest) + std::string(4 - rest.size(), '0'));
    if (!decimals) return std::nullopt;
    ppm += *decimals;
  }
  if (ppm > kWholePpm) return std::nullopt;
  return static_cast<std::uint32_t>(ppm);
}

Status parse_at(std::string_view value, FaultSpec& spec) {
  if (value.starts_with("op:")) {
    const auto operation = parse_integer(value.substr(3));
    if (!operation) return std::unexpected(operation.error());
    spec.at = {.unit = FaultStart::Unit::kOperation, .operation = *operation};
    return {};
  }
  if (value.starts_with("bytes:")) {
    const auto share = parse_share_ppm(value.substr(6));
    if (!share) return fail(Fault::kMisuse, fmt::format("'{}' is not a share like bytes:40%", value));
    spec.at = {.unit = FaultStart::Unit::kBytes, .share_ppm = *share};
    return {};
  }
  const auto time = bounded_duration(value, 0s);
  if (!time) return std::unexpected(time.error());
  spec.at = {.time = *time};
  return {};
}

Status parse_kind(std::string_view value, FaultSpec& spec) {
  std::string_view argument = value;
  const std::string_view word = take_until(argument, ":");
  const bool has_argument = word.size() != value.size();
  constexpr std::array kPlain{FaultKind::kDown, FaultKind::kCable, FaultKind::kBlackhole, FaultKind::kReset};
  for (const FaultKind kind : kPlain) {
    if (word != to_text(kind) || has_argument) continue;
    spec.kind = kind;
    return {};
  }
  if (word == "slow" && has_argument) {
    const auto rate = parse_rate(argument);
    if (!rate) return std::unexpected(rate.error());
    if (*rate < kSlowRateMin) return fail(Fault::kMisuse, fmt::format("'{}' is below 1kbit", value));
    spec.kind = FaultKind::kSlow;
    spec.rate_bytes_s = *rate;
    return {};
  }
  if (word == "flap" && has_argument) {
    const auto period = bounded_duration(argument, kFlapPeriodMin);
    if (!period) return std::unexpected(period.error());
    spec.kind = FaultKind::kFlap;
    spec.period = *period;
    return {};
  }
  return fail(Fault::kMisuse, fmt::format("'{}' is not a kind: {}", value, kKinds));
}

Status parse_number(std::string_view value, std::uint64_t most, std::uint64_t& out) {
  const auto number = parse_integer(value);
  if (!number) return std::unexpected(number.error());
  if (*number > most) return fail(Fault::kMisuse, fmt::format("{} is more than {}", *number, most));
  out = *number;
  return {};
}

Status parse_field(std::string_view key, std::string_view value, FaultSpec& spec) {
  if (key == "at") return parse_at(value, spec);
  if (key == "kind") return parse_kind(value, spec);
  if (key == "server") return parse_number(value, UINT64_MAX, spec.server.value);
  if (key == "nic") {
    std::uint64_t nic = 0;
    if (Status status = parse_number(value, 255, nic); !status) return status;
    spec.nic.value = static_cast<std::uint8_t>(nic);
    return {};
  }
  const auto lasting = bounded_duration(value, 1ns);  // the last of the keys
  if (!lasting) return std::unexpected(lasting.error());
  spec.lasting = *lasting;
  return {};
}

// Uses the largest unit that divides it, so that the text parses to the same value.
std::string exact_text(Duration duration) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 3> kUnits{
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}}};
  const std::int64_t ns = duration.count();
  for (const auto& [size, name] : kUnits) {
    if (ns % size == 0) return fmt::format("{}{}", ns / size, name);
  }
  return fmt::format("{}ns", ns);
}

std::string exact_rate_text(std::uint64_t bytes_s) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 3> kUnits{
      {{1'000'000'000, "gbit"}, {1'000'000, "mbit"}, {1'000, "kbit"}}};
  const std::uint64_t bits = bytes_s * 8;
  for (const auto& [size, name] : kUnits) {
    if (bits % size == 0) return fmt::format("{}{}", bits / size, name);
  }
  return fmt::format("{}bit", bits);
}

std::string start_text(const FaultStart& at) {
  switch (at.unit) {
    case FaultStart::Unit::kOperation:
      return fmt::format("op:{}", at.operation);
    case FaultStart::Unit::kBytes: {
      std::string decimals = fmt::format("{:04}", at.share_ppm % 10'000);
      decimals.erase(decimals.find_last_not_of('0') + 1);
      return fmt::format("bytes:{}{}{}%", at.share_ppm / 10'000, decimals.empty() ? "" : ".", decimals);
    }
    case FaultStart::Unit::kTime:
      break;
  }
  return exact_text(at.time);
}

}  // namespace

const char* to_text(FaultKind kind) {
  switch (kind) {
    case FaultKind::kDown:
      return "down";
    case FaultKind::kCable:
      return "cable";
    case FaultKind::kBlackhole:
      return "blackhole";
    case FaultKind::kReset:
      return "reset";
    case FaultKind::kSlow:
      return "slow";
    case FaultKind::kFlap:
      return "flap";
  }
  return "?";
}

Result<FaultSpec> parse_fault(std::string_view text) {
  constexpr std::array<std::string_view, 5> kKeys{"at", "server", "nic", "kind", "for"};
  std::array<bool, kKeys.size()> seen{};
  const std::string_view whole = trimmed(text);
  FaultSpec spec;
  for (std::string_view rest = whole; !rest.empty();) {
    std::string_view value = take_until(rest, " \t\n");
    if (value.empty()) continue;
    const std::string_view word = value;
    const std::string_view key = take_until(value, "=");
    std::size_t index = 0;
    while (index < kKeys.size() && kKeys[index] != key) ++index;
    if (index == kKeys.size() || key.size() == word.size()) {
      return refuse(whole, fmt::format("'{}' is none of at=, server=, nic=, kind=, for=", word));
    }
    if (std::exchange(seen[index], true)) return refuse(whole, fmt::format("{}= is given twice", key));
    if (Status status = parse_field(key, value, spec); !status) {
      return refuse(whole, fmt::format("{}=: {}", key, status.error().what));
    }
  }
  for (std::size_t i = 0; i + 1 < kKeys.size(); ++i) {
    if (!seen[i]) return refuse(whole, fmt::format("{}= is missing", kKeys[i]));
  }
  if (spec.kind == FaultKind::kReset && spec.lasting > 0s) return refuse(whole, "a reset takes no time, so no for=");
  return spec;
}

Result<std::vector<FaultSpec>> parse_faults(std::string_view text) {
  std::vector<FaultSpec> specs;
  while (!text.empty()) {
    const std::string_view one = trimmed(take_until(text, ";"));
    if (one.empty()) continue;
    if (specs.size() == kFaultsMax) return fail(Fault::kMisuse, fmt::format("more than {} faults", kFaultsMax));
    Result<FaultSpec> spec = parse_fault(one);
    if (!spec) return std::unexpected(spec.error());
    specs.push_back(*spec);
  }
  return specs;
}

std::string to_text(const FaultSpec& spec) {
  std::string kind = to_text(spec.kind);
  if (spec.kind == FaultKind::kSlow) kind += ":" + exact_rate_text(spec.rate_bytes_s);
  if (spec.kind == FaultKind::kFlap) kind += ":" + exact_text(spec.period);
  std::string text =
      fmt::format("at={} server={} nic={} kind={}", start_text(spec.at), spec.server.value, spec.nic.value, kind);
  if (spec.lasting > 0s) text += " for=" + exact_text(spec.lasting);
  return text;
}

std::string to_text(const std::vector<FaultSpec>& specs) {
  std::string text;
  for (const FaultSpec& spec : specs) {
    if (!text.empty()) text += "; ";
    text += to_text(spec);
  }
  return text;
}

}  // namespace r2ccl
