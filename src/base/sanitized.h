#pragma once
// For tests: under sanitizers a case takes some ten times as long, so long series run a tenth of their cases there.

#include <cstdint>

namespace r2ccl {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// How many of `number` cases to run.
constexpr std::uint32_t cases(std::uint32_t number) {
  return kSanitized ? (number + 9) / 10 : number;
}

}  // namespace r2ccl
