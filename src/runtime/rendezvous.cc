#include "runtime/rendezvous.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "control/local_link.h"

namespace r2ccl {

void Rendezvous::host(std::size_t expected, std::vector<Address> reach) {
  R2CCL_ASSERT(!root_ && !client_, "a rendezvous is hosted once, before it is joined");
  root_ = std::make_unique<ControlRoot>(expected, std::move(reach), log_);
}

void Rendezvous::join(const ProcessInfo& self, const UniqueId& id, std::uint32_t expected, ControlNics nics) {
  R2CCL_ASSERT(!client_, "a process joins a rendezvous once");
  client_ = std::make_unique<ControlClient>(self, id, key_, expected, std::move(nics), provider_, log_);
  if (!root_) return;
  auto [here, there] = make_local_links({Purpose::kControl, key_, self.process, self.process, {}}, self.process);
  client_->adopt(std::move(here));
  root_end_ = std::move(there);
}

void Rendezvous::accept(std::unique_ptr<Link> link, Instant now) {
  if (root_) return root_->accept(std::move(link), now);
  link->close();
}

Turn Rendezvous::step(Instant now) {
  Turn turn;
  if (root_end_) root_->accept(std::move(root_end_), now);
  if (root_) turn.merge(root_->step(now));
  if (client_) turn.merge(client_->step(now));
  if (left_ && !over_) {
    run_farewell(now);
    turn.moved |= over_;
    turn.merge({false, farewell_until_});
  }
  return turn;
}

void Rendezvous::run_farewell(Instant now) {
  if (root_ && !root_->everybody_left() && now < farewell_until_) return;
  if (root_) root_->finish();
  over_ = true;
}

std::vector<ControlEvent> Rendezvous::take_events() {
  return client_ ? client_->take_events() : std::vector<ControlEvent>{};
}

const std::vector<ProcessInfo>& Rendezvous::roster() const {
  static const std::vector<ProcessInfo> nobody;
  return client_ ? client_->roster() : nobody;
}

bool Rendezvous::names(ProcessId process) const {
  return std::ranges::find(roster(), process, &ProcessInfo::process) != roster().end();
}

const std::string& Rendezvous::failure() const {
  static const std::string none;
  return client_ ? client_->failure() : none;
}

void Rendezvous::send(ProcessId to, NoticeKind kind, ByteView bytes) {
  if (client_) client_->send(to, kind, bytes);
}

const std::vector<ProcessId>& Rendezvous::left() const {
  static const std::vector<ProcessId> unknown;
  return root_ ? root_->left() : unknown;
}

void Rendezvous::leave(bool hurry, Instant now) {
  if (!left_ && client_) client_->finish();
  left_ = true;
  if (hurry) farewell_until_ = std::min(farewell_until_, now + kFarewell);
  if (!root_) over_ = true;
}

}  // namespace r2ccl
