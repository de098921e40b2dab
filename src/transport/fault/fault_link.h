#pragma once
// A link as it behaves on a NIC with faults. It wraps a real link and changes which bytes, completions and progress
// figures get through, so the layers above see what a real fault would show them.
//
//   NIC is    step                              post        progress
//   fine      passed on                         passed on   passed on
//   cut       reads what had arrived before,    held        no acknowledgements; once anything is posted, something
//             nothing else; opening times out               is unacknowledged
//   failing   nothing moves; the link is down   kPathDown   as cut
//   slow      passed on while there are tokens  passed on   passed on; acknowledgements keep coming, only later
//
// reset() makes the link down with kReset; the connection itself is then closed abortively by whoever drains or closes
// the link, so the other end sees a reset too.
//
// Ownership  Owns the inner link; shares the NIC's state, so links may outlive the provider.

#include <memory>
#include <string>

#include "transport/fault/fault_nic.h"
#include "transport/link.h"

namespace r2ccl {

class FaultLink final : public Link {
 public:
  FaultLink(std::shared_ptr<FaultNic> nic, std::unique_ptr<Link> inner, Instant now, const FaultLimits& limits);
  // A connection begun on a cut NIC: nobody will ever answer. On a failing one it is down at once.
  FaultLink(std::shared_ptr<FaultNic> nic, const Hello& hello, Instant now, const FaultLimits& limits);
  ~FaultLink() override;
  FaultLink(const FaultLink&) = delete;
  FaultLink& operator=(const FaultLink&) = delete;

  LinkState state() const override;
  Cause cause() const override;
  const std::string& error() const override;
  const Hello& hello() const override { return inner_ ? inner_->hello() : hello_; }
  ProcessId peer() const override { return inner_ ? inner_->peer() : ProcessId{}; }
  NicId nic() const override { return nic_->id; }

  Result<Ticket> post(const OutFrame& frame) override;
  bool forget(Ticket ticket) override { return inner_ && inner_->forget(ticket); }
  void discard_rest() override;
  bool step(Instant now, FrameSink& sink) override;
  void drain_and_close(Instant now, FrameSink& sink) override;
  void close() override;
  Progress progress(Instant now) override;
  bool deafen(bool on) override { return inner_ && inner_->deafen(on); }

  // ---- for the provider ----
  void set_cut(bool cut);
  void fail_locally();
  void reset();
  void begin_metering(Instant now);  // bytes that left before the NIC became slow cost no tokens

 private:
  class Relay;
  bool step_cut(Instant now);
  void fall(Cause cause, std::string error);
  std::uint64_t left_bytes(Instant now);
  void charge_sent(Instant now);

  const std::shared_ptr<FaultNic> nic_;
  const std::uint64_t number_;
  const std::unique_ptr<Link> inner_;  // null: never left this machine
  const FaultLimits limits_;
  const Hello hello_;
  const Instant born_;
  Cause fallen_ = Cause::kNone;
  std::string error_;
  std::uint64_t posted_bytes_ = 0;
  std::uint64_t charged_bytes_ = 0;      // how many of the bytes that left the token bucket has paid for
  bool deaf_ = false;                    // the inner link drops what arrives and sends nothing
  std::uint64_t unacked_while_cut_ = 0;  // the most that progress() has shown since the cut
};

}  // namespace r2ccl
