#include "env/real/real.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/assert.h"

namespace r2ccl {
namespace {

const char* level_text(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kDebug:
      return "TRACE";
  }
  return "?";
}

}  // namespace

Instant SteadyClock::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

SodiumRandom::SodiumRandom() {
  R2CCL_ASSERT(sodium_init() >= 0, "libsodium found no source of randomness");
}

void SodiumRandom::fill(std::span<std::byte> out) {
  if (!out.empty()) randombytes_buf(out.data(), out.size());
}

StderrLog::StderrLog(LogLevel level, std::string_view file_pattern)
    : level_(level), prefix_(fmt::format("r2ccl {}:{} ", host_name(), getpid())), fd_(STDERR_FILENO) {
  if (file_pattern.empty()) return;
  const std::string name = log_file_name(file_pattern, host_name(), getpid());
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int error = errno;
  if (fd >= 0) {
    fd_ = fd;
  } else {
    write(LogLevel::kWarn, fmt::format("log file {} can not be opened ({}); logging to stderr", name,
                                       std::generic_category().message(error)));
  }
}

StderrLog::~StderrLog() {
  if (fd_ != STDERR_FILENO) close(fd_);
}

void StderrLog::write(LogLevel level, std::string_view line) {
  if (!enabled(level)) return;
  const std::string text = fmt::format("{}{} {}\n", prefix_, level_text(level), line);
  while (::write(fd_, text.data(), text.size()) < 0 && errno == EINTR) {
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  const std::string_view whole = name.data();
  return std::string(whole.substr(0, whole.find('.')));
}

std::string log_file_name(std::string_view pattern, std::string_view host, pid_t process) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (next) {
      case 'h':
        name += host;
        break;
      case 'p':
        name += fmt::format("{}", process);
        break;
      case '%':
        name += '%';
        break;
      default:
        name += pattern[i];
        continue;
    }
    ++i;
  }
  return name;
}

}  // namespace r2ccl
