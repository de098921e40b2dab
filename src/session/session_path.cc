#include "session/session_path.h"

#include <algorithm>

namespace r2ccl {

const char* to_text(PathState state) {
  switch (state) {
    case PathState::kClosed:
      return "closed";
    case PathState::kOpening:
      return "opening";
    case PathState::kUp:
      return "up";
    case PathState::kProbation:
      return "probation";
    case PathState::kSuspect:
      return "suspect";
    case PathState::kFencing:
      return "fencing";
    case PathState::kDrained:
      return "drained";
  }
  return "?";
}

}  // namespace r2ccl
