#pragma once
// What a program can not control: time, chance, and where its words go. Whoever owns the process hands these in. The
// real ones are in env/real, the simulated ones in sim/net. Code below never reads a clock, draws a random number,
// prints or reads the environment by itself, so the simulator decides all of it.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/time.h"

namespace r2ccl {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;
};

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> out) = 0;

  std::uint64_t next() {
    std::uint64_t value;
    fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

enum class LogLevel : std::uint8_t { kError, kWarn, kInfo, kDebug };

class Log {
 public:
  virtual ~Log() = default;
  virtual bool enabled(LogLevel level) const = 0;
  // One line, no newline at its end. A fault is logged once, where it is understood, with object and numbers.
  virtual void write(LogLevel level, std::string_view line) = 0;
};

struct Env {
  Clock& clock;
  Random& random;
  Log& log;
};

}  // namespace r2ccl
