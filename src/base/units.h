#pragma once
// Reads and writes amounts as people do in settings, faults and command lines. Malformed text fails with kMisuse and
// one sentence that quotes it and shows what would be right.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace r2ccl {

// "200us", "150ms", "1.5s", "10m", "1h", "0"; a number other than 0 needs its unit.
Result<Duration> parse_duration(std::string_view text);

// "4096", "256K", "4M", "1.5G", "1T", also "4MB" and "4MiB": K is always 1024.
Result<std::uint64_t> parse_bytes(std::string_view text);

// "800bit", "10kbit", "50mbit", "400gbit" per second, factors of 1000 as networks count. The result is in bytes per
// second.
Result<std::uint64_t> parse_rate(std::string_view text);

// Digits only: no sign, no blanks.
Result<std::uint64_t> parse_integer(std::string_view text);

std::string duration_text(Duration duration);  // "4.2 ms", "60 s"
std::string bytes_text(std::uint64_t bytes);   // "2.1 MiB", "512 B"
std::string rate_text(std::uint64_t bytes_s);  // "400 gbit/s"

}  // namespace r2ccl
