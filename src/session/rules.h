#pragma once
// The protocol's rules as values, so that a test can break one and see the simulator notice. Production never changes
// them.

namespace r2ccl {

struct Rules {
  bool fence_before_replay = true;  // replay waits for the other end's FENCED, and the old connection is closed first
  bool check_epoch = true;          // frames and notices of an old epoch have no effect
  bool drop_duplicates = true;      // a chunk that is already in is not announced again
  bool release_on_receipt = true;   // a sender's buffer is free after the end-to-end receipt, not on local completion
  bool resend_credit_after_fence = true;
  bool fence_both_ends = true;        // the end that was told also fences and says what it has
  bool redirect_landing = true;       // one writer: an older copy of a chunk goes to discard when a newer one lands
  bool repeat_notice = true;          // PATH_DOWN again until FENCED comes
  bool exact_replay_boundary = true;  // replay what is not in `have`, not what lies above some boundary
};

}  // namespace r2ccl
