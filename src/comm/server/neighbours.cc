#include "comm/server/neighbours.h"

#include <algorithm>
#include <map>

namespace r2ccl {

Neighbours::Neighbours(const std::vector<ProcessInfo>& members, std::uint32_t rank)
    : rank_(rank), size_(members.size()) {
  std::map<ServerId, std::vector<std::uint32_t>> servers;
  for (std::uint32_t r = 0; r < members.size(); ++r) servers[members[r].server].push_back(r);
  for (auto& [server, ranks] : servers) {
    if (ranks.size() > 1) groups_.push_back({std::move(ranks), {}});
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

std::size_t Neighbours::arena_bytes() const {
  const auto ranks = static_cast<std::uint32_t>(here().size());
  return PeerCopy::bytes_for(ranks) + (all_here() ? Board::bytes_for(ranks) : 0);
}

void Neighbours::offer(std::uint64_t nonce) {
  if (!leads(rank_)) return;
  auto made = Arena::make(arena_bytes(), nonce);
  if (!made) return;
  arena_.emplace(std::move(*made));
  groups_[mine_].ticket = arena_->ticket();
  enter();
}

// Opens this rank's door, so that others can try it.
void Neighbours::enter() {
  peer_copy_.emplace(arena_->data(), here(), rank_, Arena::this_process());
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
  if (!groups_[mine_].ticket.valid() || groups_[mine_].ticket.bytes != arena_bytes())
    return fail(Fault::kPathDown, "No shared memory was offered.");
  auto mapped = Arena::map(groups_[mine_].ticket);
  if (!mapped) return std::unexpected(mapped.error());
  arena_.emplace(std::move(*mapped));
  enter();
  return {};
}

void Neighbours::put_mapped(Writer& out) const {
  std::uint8_t can = arena_ ? kMaps : 0;
  if (peer_copy_ && peer_copy_->reaches(here().front())) can |= kCopies;
  out.put(can);
}

void Neighbours::take_mapped(std::uint32_t from, Reader& in) {
  const auto can = in.get<std::uint8_t>();
  if (Group* const group = group_of(from)) group->can &= can;
}

void Neighbours::put_verdicts(Writer& out) const {
  for (const Group& group : groups_) out.put(group.ticket.valid() ? group.can : std::uint8_t{0});
}

void Neighbours::settle(Reader& in) {
  std::uint8_t can = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto its = in.get<std::uint8_t>();
    if (i == mine_ && in.ok()) can = its;
  }
  if ((can & kCopies) == 0) peer_copy_.reset();
  if ((can & kMaps) == 0) {
    arena_.reset();
    return;
  }
  if (!arena_) return;
  arena_->seal();
  const auto ranks = static_cast<std::uint32_t>(here().size());
  if (all_here()) board_.emplace(arena_->data() + PeerCopy::bytes_for(ranks), ranks, rank_);
}

}  // namespace r2ccl
