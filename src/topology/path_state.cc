#include "topology/path_state.h"

namespace r2ccl {

const char* to_text(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "no cause";
    case Cause::kRefused:
      return "connection refused";
    case Cause::kReset:
      return "reset by the other end";
    case Cause::kClosed:
      return "closed by the other end";
    case Cause::kTimeout:
      return "timed out";
    case Cause::kLocal:
      return "local network error";
    case Cause::kUnproven:
      return "secret not proven";
    case Cause::kBadFrame:
      return "framing lost";
    case Cause::kSilent:
      return "silent";
    case Cause::kTold:
      return "told by the peer";
    case Cause::kCarrier:
      return "carrier lost";
    case Cause::kDrained:
      return "drained";
    case Cause::kReplaced:
      return "replaced by a newer epoch";
  }
  return "unknown cause";
}

}  // namespace r2ccl
