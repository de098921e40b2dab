#pragma once
// What the ranks of a communicator say to each other besides data. Letters travel on a stream between rank 0 and each
// rank, in order, exactly once. Notices are datagrams: they may be lost, or come twice (Engine::notify).

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

namespace r2ccl {

// First byte of a letter. Those below kFirst belong to agreement/agreement.h.
enum class Letter : std::uint8_t {
  kFirst = 16,
  kHere = 16,     // to rank 0: this rank has joined
  kGo = 17,       // from rank 0: all have
  kMapped = 18,   // to rank 0, where servers have several ranks: whether this rank can share memory (neighbours.h)
  kStart = 19,    // from rank 0: which servers do
  kDone = 20,     // to rank 0: this rank takes no more calls and has finished all
  kAllDone = 21,  // from rank 0: all have
};

// kFailed: the communicator has ended at the sender; `number` is the Fault and `text` says why. kAsk: the sender waits
// in collective `number`, which is the call `text` there; a rank that made another call as that number ends the
// communicator with a sentence that names both.
struct CallNotice {
  enum class Kind : std::uint8_t { kFailed = 1, kAsk = 2 } kind{};
  std::uint64_t number = 0;
  std::uint64_t signature = 0;
  std::string text;
};
inline constexpr std::size_t kCallNoticeTextMax = 1024;

Bytes encode(const CallNotice& notice);                       // text beyond its limit is cut
std::optional<CallNotice> parse_call_notice(ByteView bytes);  // strict; text that is not printable comes out as '?'

}  // namespace r2ccl
