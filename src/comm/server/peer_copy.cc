#include "comm/server/peer_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "transport/shm/remote_read.h"

namespace r2ccl {

std::size_t PeerCopy::bytes_for(std::size_t ranks) {
  return ranks * sizeof(Door) + ranks * ranks * sizeof(Ring);
}

PeerCopy::PeerCopy(std::byte* memory, std::vector<std::uint32_t> here, std::uint32_t rank, std::uint32_t process)
    : here_(std::move(here)), place_(place_of(rank)), doors_(reinterpret_cast<Door*>(memory)), peers_(here_.size()) {
  R2CCL_ASSERT(place_ < here_.size(), "a rank that is somewhere else");
  auto* const rings = reinterpret_cast<Ring*>(memory + here_.size() * sizeof(Door));
  for (std::size_t i = 0; i < here_.size(); ++i) {
    Peer& other = peers_[i];
    other.rank = here_[i];
    other.out = rings + place_ * here_.size() + i;
    other.in = rings + i * here_.size() + place_;
    other.door = doors_ + i;
  }
  Door& own = doors_[place_];
  own.probe = reinterpret_cast<std::uint64_t>(&own.probe);
  own.process.store(process, std::memory_order_release);
}

std::size_t PeerCopy::place_of(std::uint32_t rank) const {
  return static_cast<std::size_t>(std::ranges::find(here_, rank) - here_.begin());
}

PeerCopy::Peer& PeerCopy::peer(std::uint32_t rank) {
  const std::size_t place = place_of(rank);
  R2CCL_ASSERT(place < here_.size() && place != place_, "not a neighbour");
  return peers_[place];
}

bool PeerCopy::reaches(std::uint32_t rank) const {
  const Door& door = doors_[place_of(rank)];
  const std::uint32_t process = door.process.load(std::memory_order_acquire);
  std::uint64_t seen = 0;
  return process != 0 && remote_read(process, door.probe, reinterpret_cast<std::byte*>(&seen), sizeof seen) &&
         seen == door.probe;
}

bool PeerCopy::put(Peer& to, const Entry& entry) {
  const std::uint64_t written = to.out->written.load(std::memory_order_relaxed);
  if (written - to.out->read.load(std::memory_order_acquire) >= kRing) return false;
  to.out->entries[written % kRing] = entry;
  to.out->written.store(written + 1, std::memory_order_release);
  return true;
}

bool PeerCopy::flush(Peer& to) const {
  bool moved = false;
  while (!to.leaving.empty() && put(to, to.leaving.front())) {
    to.leaving.pop_front();
    moved = true;
  }
  return moved;
}

void PeerCopy::send(std::uint32_t to, std::uint64_t stream, const std::byte* data, std::uint64_t bytes,
                    std::uint64_t tag, std::uint64_t token) {
  Peer& other = peer(to);
  const std::uint64_t number = other.next_number++;
  other.unanswered.emplace(number, Done{to, token, tag, bytes, {}});
  other.leaving.push_back({stream, tag, reinterpret_cast<std::uint64_t>(data), bytes, number});
  flush(other);
  ++open_;
}

void PeerCopy::receive(std::uint32_t from, std::uint64_t stream, std::byte* data, std::uint64_t bytes,
                       std::uint64_t token) {
  peer(from).streams[stream].posted.push_back({data, bytes, token});
  ++open_;
}

bool PeerCopy::step(std::vector<Done>& done) {
  bool moved = false;
  std::uint64_t budget = kBytesPerStep;
  for (Peer& other : peers_) {
    if (closed_ || other.rank == here_[place_]) continue;
    moved |= take(other, done);
    for (auto& [name, stream] : other.streams) moved |= copy(other, stream, done, budget);
    moved |= flush(other);
  }
  return moved;
}

// Empties the ring, so that nobody waits for room behind a message nobody has posted a receive for.
bool PeerCopy::take(Peer& from, std::vector<Done>& done) {
  const std::uint64_t begin = from.in->read.load(std::memory_order_relaxed);
  const std::uint64_t end = from.in->written.load(std::memory_order_acquire);
  for (std::uint64_t i = begin; i < end; ++i) {
    const Entry& entry = from.in->entries[i % kRing];
    if (entry.stream != kDoneMark) {
      from.streams[entry.stream].sent.push_back(entry);
      continue;
    }
    const auto answered = from.unanswered.find(entry.number);
    if (answered == from.unanswered.end()) continue;
    done.push_back(std::move(answered->second));
    from.unanswered.erase(answered);
    --open_;
  }
  from.in->read.store(end, std::memory_order_release);
  return begin != end;
}

bool PeerCopy::copy(Peer& from, Stream& stream, std::vector<Done>& done, std::uint64_t& budget) {
  bool moved = false;
  while (budget > 0 && !stream.sent.empty() && !stream.posted.empty()) {
    const Entry entry = stream.sent.front();
    const Receive receive = stream.posted.front();
    Done one{from.rank, receive.token, entry.tag, entry.bytes, {}};
    const std::uint32_t process = from.door->process.load(std::memory_order_acquire);
    if (entry.bytes > receive.bytes) {
      one.status = fail(Fault::kCallsDiffer, fmt::format("rank {} sent {} bytes where {} are received.", from.rank,
                                                         entry.bytes, receive.bytes));
    } else if (!remote_read(process, entry.address, receive.data, entry.bytes) ||
               from.door->closed.load(std::memory_order_seq_cst) != 0) {
      return moved;  // it has let go, or is gone: whoever knows why ends the communicator
    }
    stream.sent.pop_front();
    stream.posted.pop_front();
    from.leaving.push_back({kDoneMark, 0, 0, 0, entry.number});
    done.push_back(std::move(one));
    --open_;
    budget -= std::min(budget, entry.bytes + 1);
    moved = true;
  }
  return moved;
}

void PeerCopy::close() {
  if (std::exchange(closed_, true)) return;
  doors_[place_].closed.store(1, std::memory_order_seq_cst);
  for (Peer& other : peers_) {
    other.streams.clear();
    other.unanswered.clear();
    other.leaving.clear();
  }
  open_ = 0;
}

}  // namespace r2ccl
