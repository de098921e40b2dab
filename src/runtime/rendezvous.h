#pragma once
// One meeting of processes under one unique id: the member's end and, in the process that hosts it, the root's end. An
// engine has one of these per unique id.
//
// Threads    Part of an engine, whose driver calls it.
// Ownership  Borrows provider and log.

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
  // Becomes the root. `expected` 0: as many as the members say. `reach`: more addresses under which members find it.
  void host(std::size_t expected, std::vector<Address> reach);
  bool hosts() const { return root_ != nullptr; }
  // Becomes a member; `self` says as which rank.
  void join(const ProcessInfo& self, const UniqueId& id, std::uint32_t expected, ControlNics nics);
  bool joined() const { return client_ != nullptr; }

  void accept(std::unique_ptr<Link> link, Instant now);  // a control link with this key; closed unless we host
  Turn step(Instant now);
  std::vector<ControlEvent> take_events();
  // By rank; empty until everybody is there, and never changed after that.
  const std::vector<ProcessInfo>& roster() const;
  bool names(ProcessId process) const;
  bool connected() const { return client_ && client_->connected(); }
  std::optional<ControlWay> way() const { return client_ ? client_->way() : std::nullopt; }
  const std::string& failure() const;  // why the root refuses us; empty: it does not
  void send(ProcessId to, NoticeKind kind, ByteView bytes);
  const std::vector<ProcessId>& left() const;  // members that said goodbye to a root here, in that order

  // Says BYE. A root goes on until everybody has left; with `hurry`, at most kFarewell longer.
  void leave(bool hurry, Instant now);
  // True: we have left, and no root is needed here any more.
  bool over() const { return over_; }

 private:
  void run_farewell(Instant now);

  const KeyId key_;
  Provider& provider_;
  Log& log_;
  std::unique_ptr<ControlRoot> root_;
  std::unique_ptr<Link> root_end_;  // the local link's end; the root accepts it in the first step, which knows the time
  std::unique_ptr<ControlClient> client_;
  bool left_ = false;
  bool over_ = false;
  Instant farewell_until_ = kNever;
};

}  // namespace r2ccl
