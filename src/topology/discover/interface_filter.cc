#include "topology/discover/interface_filter.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words;
  for (;;) {
    const auto comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    words.emplace_back(word);
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  InterfaceFilter filter;
  if (text.empty()) return filter;
  const std::string_view whole = text;
  if (text.starts_with('^')) {
    filter.exclude_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    filter.exact_ = true;
    text.remove_prefix(1);
  }
  filter.words_ = split_list(text);
  if (std::ranges::any_of(filter.words_, &std::string::empty)) {
    return fail(Fault::kMisuse, fmt::format("the interface filter '{}' has an empty name", whole));
  }
  return filter;
}

bool InterfaceFilter::matches(std::string_view name, bool loopback) const {
  if (words_.empty()) return !loopback && !name.starts_with("docker");
  const bool named = std::ranges::any_of(
      words_, [&](const std::string& word) { return exact_ ? name == word : name.starts_with(word); });
  if (exclude_) return !named && !loopback;
  return named;
}

}  // namespace r2ccl
