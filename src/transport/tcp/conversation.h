#pragma once
// Notices when the two ends of a connection talk in turns. Then the answer to what was just written is often there
// already, and trying to read is cheaper than first asking the kernel who is ready. Each look that finds nothing makes
// the next one rarer.

#include <algorithm>
#include <cstdint>
#include <utility>

namespace r2ccl {

class Conversation final {
 public:
  // Something was written. True: it is worth a look for the answer.
  bool wrote() {
    if (!std::exchange(heard_, false)) return false;  // one way, or one end is ahead
    if (passed_ < (1U << missed_) - 1) {
      ++passed_;
      return false;
    }
    passed_ = 0;
    return looking_ = true;
  }

  // A read was tried.
  void read(bool found) {
    if (std::exchange(looking_, false)) missed_ = found ? 0 : std::min(missed_ + 1, kMissedMost);
    heard_ = heard_ || found;
  }

 private:
  static constexpr std::uint32_t kMissedMost = 6;  // one answer in 64 is looked for

  bool heard_ = false;  // since the last write
  bool looking_ = false;
  std::uint32_t missed_ = 0;  // looks in a row that found nothing
  std::uint32_t passed_ = 0;  // answers not looked for since
};

}  // namespace r2ccl
