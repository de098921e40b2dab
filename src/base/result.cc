#include "base/result.h"

namespace r2ccl {

const char* to_text(Fault fault) {
  switch (fault) {
    case Fault::kBusy:
      return "busy";
    case Fault::kPathDown:
      return "path down";
    case Fault::kPeerDown:
      return "peer down";
    case Fault::kAborted:
      return "aborted";
    case Fault::kMisuse:
      return "misuse";
    case Fault::kBug:
      return "bug";
    case Fault::kGroupEnded:
      return "group ended";
    case Fault::kCallsDiffer:
      return "calls differ";
  }
  return "unknown fault";
}

}  // namespace r2ccl
