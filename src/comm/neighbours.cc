#include "comm/neighbours.h"

#include <algorithm>
#include <map>

namespace r2ccl {

Neighbours::Neighbours(const std::vector<ProcessInfo>& members, std::uint32_t rank)
    : rank_(rank), size_(members.size()) {
  std::map<ServerId, std::vector<std::uint32_t>> servers;
  for (std::uint32_t r = 0; r < members.size(); ++r) servers[members[r].server].push_back(r);
  for (auto& [server, ranks] : servers) {
    if (ranks.size() > 1) groups_.push_back({std::move(ranks), {}, true});
  }
  std::ranges::sort(groups_, {}, [](const Group& group) { return group.ranks.front(); });
  const auto mine =
      std::ranges::find_if(groups_, [&](const Group& group) { return std::ranges::binary_search(group.ranks, rank); });
  mine_ = static_cast<std::size_t>(mine - groups_.begin());
}

const std::vector<std::uint32_t>& Neighbours::here() const {
  static const std::vector<std::uint32_t> kNone;
  return mine_ < groups_.size() ? groups_[mine_].ranks : kNone;
}

Neighbours::Group* Neighbours::group_of(std::uint32_t rank) {
  const auto found =
      std::ranges::find_if(groups_, [&](const Group& group) { return std::ranges::binary_search(group.ranks, rank); });
  return found == groups_.end() ? nullptr : &*found;
}

bool Neighbours::leads(std::uint32_t rank) const {
  return std::ranges::any_of(groups_, [&](const Group& group) { return group.ranks.front() == rank; });
}

void Neighbours::offer(std::size_t bytes, std::uint64_t nonce) {
  if (!leads(rank_)) return;
  auto made = Arena::make(bytes, nonce);
  if (!made) return;
  arena_.emplace(std::move(*made));
  groups_[mine_].ticket = arena_->ticket();
}

void Neighbours::put_offer(Writer& out) const {
  if (leads(rank_)) groups_[mine_].ticket.put(out);
}

bool Neighbours::take_offer(std::uint32_t from, Reader& in) {
  if (leads(from)) group_of(from)->ticket = Arena::Ticket::get(in);
  return in.done();
}

void Neighbours::put_offers(Writer& out) const {
  for (const Group& group : groups_) group.ticket.put(out);
}

Status Neighbours::map(Reader& in) {
  for (Group& group : groups_) group.ticket = Arena::Ticket::get(in);
  if (!in.done()) return fail(Fault::kBug, "An offer of shared memory can not be read.");
  if (mine_ >= groups_.size() || arena_) return {};
  if (!groups_[mine_].ticket.valid()) return fail(Fault::kPathDown, "No shared memory was offered.");
  auto mapped = Arena::map(groups_[mine_].ticket);
  if (!mapped) return std::unexpected(mapped.error());
  arena_.emplace(std::move(*mapped));
  return {};
}

void Neighbours::take_mapped(std::uint32_t from, bool could) {
  if (Group* const group = group_of(from)) group->could &= could;
}

void Neighbours::put_verdicts(Writer& out) const {
  for (const Group& group : groups_) out.put(static_cast<std::uint8_t>(group.could && group.ticket.valid()));
}

void Neighbours::settle(Reader& in) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const bool shares = in.get<std::uint8_t>() == 1;
    if (i == mine_) shares_ = shares && in.ok();
  }
  if (!shares_)
    arena_.reset();
  else if (arena_)
    arena_->seal();
}

}  // namespace r2ccl
