#include "comm/invitation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace r2ccl {

Invitation::Invitation(Engine& engine, GroupId group, std::vector<ProcessInfo> guests, std::optional<UniqueId> id)
    : engine_(engine), group_(group), guests_(std::move(guests)), id_(std::move(id)) {
  R2CCL_ASSERT(!guests_.empty() && is_first() == id_.has_value(), "the first of those invited has the id");
  // Either end may be the one that has to connect.
  for (const ProcessInfo& guest : guests_) {
    if (guest.process != engine_.self().process && (is_first() || guest.process == guests_.front().process))
      engine_.session(guest.process);
  }
  engine_.attach(group_, *this);  // last: what throws before leaves nothing behind
}

Invitation::~Invitation() {
  engine_.detach(group_);
}

void Invitation::on_notice(ProcessId from, ByteView bytes) {
  if (is_first()) {
    const bool invited = std::ranges::find(guests_, from, &ProcessInfo::process) != guests_.end();
    if (invited && bytes.empty()) engine_.notify(from, group_, id_->pack());
    return;
  }
  if (from != guests_.front().process || over()) return;
  if (auto id = UniqueId::unpack(bytes)) id_ = std::move(*id);
}

Turn Invitation::step(Instant now) {
  if (over()) return {};
  const ProcessInfo& first = guests_.front();
  const Session& session = engine_.session(first.process);
  if (session.state() == SessionState::kPeerDown) {
    failure_ = fmt::format("Rank {} ({}), the first of those that stay, is gone: {}", first.rank, first.host,
                           session.why_down());
    return {true, kNever};
  }
  if (now < next_ask_) return {false, next_ask_};
  engine_.notify(first.process, group_, {});
  next_ask_ = now + ask_after_;
  ask_after_ = std::min(ask_after_ * 2, kAskLater);
  return {true, next_ask_};
}

}  // namespace r2ccl
