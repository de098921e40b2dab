#pragma once
// The real clock, randomness and log. Whoever owns the process (main, the library's border) makes them and hands them
// down as Env. All three may be used from any thread.

#include <sys/types.h>

#include <string>
#include <string_view>

#include "env/env.h"

namespace r2ccl {

// CLOCK_MONOTONIC.
class SteadyClock final : public Clock {
 public:
  Instant now() override;
};

// The kernel's randomness by way of libsodium; fit for secrets.
class SodiumRandom final : public Random {
 public:
  SodiumRandom();  // Throws Bug where the system has no source of randomness.
  void fill(std::span<std::byte> out) override;
};

// Makes one write per line, so that lines of several processes do not mix: "r2ccl host:123 WARN ...". Writes to stderr
// or, as NCCL does, only to the file that NCCL_DEBUG_FILE names. If that can not be opened, it says so on stderr and
// goes on there. A write that fails is not reported anywhere: logging never stops the work.
class StderrLog final : public Log {
 public:
  // `file_pattern` as in NCCL_DEBUG_FILE: %h is the host, %p the process id, %% a percent sign; empty for stderr.
  StderrLog(LogLevel level, std::string_view file_pattern);
  ~StderrLog() override;
  StderrLog(const StderrLog&) = delete;
  StderrLog& operator=(const StderrLog&) = delete;

  bool enabled(LogLevel level) const override { return level <= level_; }
  void write(LogLevel level, std::string_view line) override;

 private:
  LogLevel level_;
  std::string prefix_;
  int fd_;
};

std::string host_name();  // up to its first dot
std::string log_file_name(std::string_view pattern, std::string_view host, pid_t process);

}  // namespace r2ccl
