#pragma once
// One meeting of processes: the root's end, where this process hosts it, and the member's end. An engine has one per unique id.
//
// Threads    Part of an engine. Ownership: borrows provider and log.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/control.h"
#include "env/env.h"
#include "topology/nic.h"
#include "transport/link.h"

namespace r2ccl {

class Rendezvous final {
 public:
  static constexpr Duration kFarewell = 1s;  // how long a root waits for the others' BYE

  Rendezvous(KeyId key, Provider& provider, Log& log) : key_(key), provider_(provider), log_(log) {}

  KeyId key() const { return key_; }
  // Becomes the root. `expected` 0: as many as the members say. `reach`: where members find it, wherever they met it.
  void host(std::size_t expected, std::vector<Address> reach);
  bool hosts() const { return root_ != nullptr; }
  // Becomes a member; `self` says as which rank.
  void join(const ProcessInfo& self, const UniqueId& id, std::uint32_t expected, ControlNics nics);
  bool joined() const { return client_ != nullptr; }

  void accept(std::unique_ptr<Link> link, Instant now);  // a control link with this key; closed where nobody hosts
  Turn step(Instant now);
  std::vector<ControlEvent> take_events();
  // By rank; empty until everybody is there. Never changes then.
  const std::vector<ProcessInfo>& roster() const;
  bool names(ProcessId process) const;
  bool connected() const { return client_ && client_->connected(); }
  std::optional<ControlWay> way() const { return client_ ? client_->way() : std::nullopt; }
  const std::string& failure() const;  // why the root refuses us; empty: it does not
  void send(ProcessId to, NoticeKind kind, ByteView bytes);
  const std::vector<ProcessId>& left() const;  // members that said goodbye to a root here, in that order

  // BYE; a root waits for the others, at most kFarewell when `hurry`.
  void leave(bool hurry, Instant now);
  // Left, and nobody here is needed any more.
  bool over() const { return over_; }

 private:
  void run_farewell(Instant now);

  const KeyId key_;
  Provider& provider_;
  Log& log_;
  std::unique_ptr<ControlRoot> root_;
  std::unique_ptr<Link> root_end_;  // of the local link, until the first step says what time it is
  std::unique_ptr<ControlClient> client_;
  bool left_ = false;
  bool over_ = false;
  Instant farewell_until_ = kNever;
};

}  // namespace r2ccl
