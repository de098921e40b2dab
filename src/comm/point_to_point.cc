#include "comm/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

PointToPoint::PointToPoint(const std::vector<Call>& calls, std::uint32_t rank, Mailbox& mailbox, const Device& device)
    : rank_(rank), mailbox_(mailbox), device_(device) {
  for (const Call& call : calls) {
    if (!is_point_to_point(call.kind)) continue;
    void* const memory = call.kind == CallKind::kSend ? const_cast<void*>(call.input) : call.output;
    items_.push_back({call, std::make_unique<HostRegion>(memory, bytes(call)), false});
  }
  open_ = unstarted_ = items_.size();
  pair_with_itself();
}

void PointToPoint::pair_with_itself() {
  std::vector<Item*> sends;
  std::vector<Item*> receives;
  for (Item& item : items_) {
    if (item.call.peer == rank_) (item.call.kind == CallKind::kSend ? sends : receives).push_back(&item);
  }
  if (sends.size() != receives.size()) {
    result_ =
        fail(Fault::kMisuse, fmt::format("Rank {} has {} sends to itself and {} receives from itself in one group.",
                                         rank_, sends.size(), receives.size()));
    return;
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (bytes(sends[i]->call) != bytes(receives[i]->call)) {
      result_ = fail(Fault::kMisuse, fmt::format("Rank {} sends itself {} bytes and receives {}.", rank_,
                                                 bytes(sends[i]->call), bytes(receives[i]->call)));
      return;
    }
    if (bytes(sends[i]->call) > 0) {
      device_.copy(static_cast<std::byte*>(receives[i]->call.output),
                   static_cast<const std::byte*>(sends[i]->call.input), bytes(sends[i]->call));
    }
    sends[i]->started = receives[i]->started = true;
    unstarted_ -= 2;
    open_ -= 2;
  }
}

bool PointToPoint::step() {
  bool moved = false;
  // Between two ranks the order counts: one that has to wait holds up those behind it.
  std::vector<std::pair<std::uint32_t, bool>> held;
  for (std::size_t i = 0; i < items_.size() && unstarted_ > 0 && result_; ++i) {
    Item& item = items_[i];
    if (item.started) continue;
    const std::pair stream(item.call.peer, item.call.kind == CallKind::kSend);
    if (std::ranges::find(held, stream) != held.end()) continue;
    if (start(item, i)) {
      moved = true;
    } else {
      held.push_back(stream);
    }
  }
  return moved;
}

bool PointToPoint::start(Item& item, std::uint64_t token) {
  const MemoryRef memory{item.region.get(), 0, item.region->size()};
  const Status status = item.call.kind == CallKind::kSend ? mailbox_.send_point(item.call.peer, memory, token)
                                                          : mailbox_.receive_point(item.call.peer, memory, token);
  if (!status && status.error().fault == Fault::kBusy) return false;
  if (!status) result_ = status;
  item.started = true;
  --unstarted_;
  return true;
}

void PointToPoint::on_completion(const Mailbox::Done& done) {
  if (done.token >= items_.size()) return;
  const Call& call = items_[done.token].call;
  --open_;
  if (!done.status) {
    result_ = done.status;
  } else if (call.kind == CallKind::kRecv && done.bytes != bytes(call)) {
    result_ = fail(Fault::kCallsDiffer, fmt::format("{} sent {} bytes, this rank receives {}.",
                                                    mailbox_.name_of(call.peer), done.bytes, bytes(call)));
  }
}

}  // namespace r2ccl
