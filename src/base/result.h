#pragma once
// Failures of the world as values. The fault says what the caller should do next.

#include <cstdint>
#include <expected>
#include <string>

namespace r2ccl {

enum class Fault : std::uint8_t {
  kBusy,      // Full or not ready. Call again later; nothing was lost.
  kPathDown,  // This path is gone. The same work may go over another one.
  kPeerDown,  // The peer's process died, or no path to it came back in time.
  kAborted,   // Somebody asked us to stop. Unwind; do not retry.
  kMisuse,    // The caller broke the contract. Retrying can not help.
  kBug,       // We broke our own invariant.
  // What work between ranks meets besides:
  kGroupEnded,   // Its group has not joined here, or has ended. Whoever owns the group knows why.
  kCallsDiffer,  // Two ranks made calls that do not fit together. Name both; retrying can not help.
};
inline constexpr Fault kLastFault = Fault::kCallsDiffer;

struct [[nodiscard]] Error {
  Fault fault;
  std::string what;  // One sentence that names the object and the numbers.
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(Fault fault, std::string what) {
  return std::unexpected(Error{fault, std::move(what)});
}

const char* to_text(Fault fault);

}  // namespace r2ccl
