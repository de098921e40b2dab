#pragma once
// Words that print.cc and parse.cc share.

#include <algorithm>
#include <array>
#include <string_view>

namespace r2ccl {

inline constexpr std::array<std::string_view, 4> kBufferWords{"none", "input", "output", "scratch"};  // by Buffer

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// What the names of algorithms and lanes consist of.
constexpr bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}
// A wait that names its lane by digits means its number.
constexpr bool is_number(std::string_view word) {
  return std::ranges::all_of(word, is_digit);
}

}  // namespace r2ccl
