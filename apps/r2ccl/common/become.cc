#include "apps/r2ccl/common/become.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <system_error>

namespace r2ccl::apps {
namespace {

// What the kernel takes as a list of words: valid as long as `words` is.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// This process's environment, where `lines` (NAME=value) replace what has their names. Other libraries take an empty
// value for one, so there is none.
std::vector<std::string> environment_with(const std::vector<std::string>& lines) {
  const auto name = [](std::string_view line) { return line.substr(0, line.find('=')); };
  std::vector<std::string> out;
  std::ranges::copy_if(lines, std::back_inserter(out), [](const std::string& line) { return !line.ends_with('='); });
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::ranges::any_of(lines, [&](const auto& line) { return name(line) == name(*entry); });
    if (!replaced) out.emplace_back(*entry);
  }
  return out;
}

}  // namespace

Error become(const std::vector<std::string>& program, const std::vector<std::string>& lines) {
  const std::vector<std::string> environment = environment_with(lines);
  ::execvpe(program[0].c_str(), pointers(program).data(), pointers(environment).data());
  return {Fault::kMisuse,
          fmt::format("'{}' can not be started: {}", program[0], std::generic_category().message(errno))};
}

}  // namespace r2ccl::apps
