#pragma once
// Runs a command as a user would type it.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace r2ccl {

struct Ran {
  int status = -1;  // the exit status; -1: it did not begin, or a signal ended it
  std::string out;
};

// Stderr is part of `out` when the line says so (2>&1).
inline Ran shell(const std::string& line) {
  Ran ran;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> bytes{};
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe)) ran.out.append(bytes.data(), count);
  const int raw = ::pclose(pipe);
  if (WIFEXITED(raw)) ran.status = WEXITSTATUS(raw);
  return ran;
}

}  // namespace r2ccl
