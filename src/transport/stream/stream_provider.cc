#include "transport/stream/stream_provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/stream/handshake.h"
#include "transport/stream/stream_link.h"

namespace r2ccl {
namespace {

Nonce fresh_nonce(Random& random) {
  Nonce nonce;
  random.fill(nonce);
  return nonce;
}

}  // namespace

struct StreamProvider::HalfOpen {
  std::unique_ptr<StreamLink> link;
  Instant began;
};

StreamProvider::StreamProvider(Dialer& dialer, Keyring& keyring, Random& random, ProcessId self,
                               const StreamLimits& limits)
    : dialer_(dialer), keyring_(keyring), random_(random), self_(self), limits_(limits) {}

StreamProvider::~StreamProvider() = default;

std::span<const Nic> StreamProvider::nics() const {
  return dialer_.nics();
}

Result<Address> StreamProvider::listen(NicId nic, std::uint16_t port) {
  return dialer_.listen(nic, port);
}

std::optional<NicEvent> StreamProvider::next_event() {
  return dialer_.next_event();
}

Result<std::unique_ptr<Link>> StreamProvider::connect(NicId nic, const Address& remote, const Hello& hello,
                                                      Instant now) {
  const Secret* secret = keyring_.find(hello.key);
  if (secret == nullptr) {
    return fail(Fault::kMisuse, fmt::format("key {:016x} is not in the keyring of this process", hello.key.value));
  }
  auto stream = dialer_.connect(nic, remote);
  if (!stream) return std::unexpected(stream.error());
  Hello said = hello;
  said.from = self_;
  const Instant deadline = now + limits_.open_timeout;
  connect_deadlines_.push_back(deadline);
  return std::make_unique<StreamLink>(
      std::move(*stream), std::make_unique<Handshake>(said, *secret, fresh_nonce(random_)), limits_, deadline);
}

std::unique_ptr<Link> StreamProvider::accept() {
  if (ready_.empty()) return nullptr;
  auto link = std::move(ready_.front());
  ready_.pop_front();
  return link;
}

Turn StreamProvider::step(Instant now) {
  Turn turn;
  turn.moved = dialer_.step(now);
  turn.moved |= take_inbound(now);
  if (!half_open_.empty()) turn.moved |= step_half_open(now);
  turn.next = next_deadline(now);
  return turn;
}

bool StreamProvider::take_inbound(Instant now) {
  bool moved = false;
  for (std::size_t i = 0; i < limits_.accepts_per_step; ++i) {
    if (ready_.size() >= limits_.ready_max || !has_room(now)) break;
    auto stream = dialer_.accept();
    if (stream == nullptr) break;
    moved = true;
    if (too_many_unproven(now)) {
      ++counters_.rate_limited;
      stream->close(true);
    } else {
      begin_inbound(std::move(stream), now);
    }
  }
  return moved;
}

// False: there are too many half-open connections, and all are too young to be given up. Newcomers then wait in the
// listen queue, so that honest processes that connect at the same time do not push each other out.
bool StreamProvider::has_room(Instant now) const {
  return half_open_.size() < limits_.half_open_max || now - half_open_.front()->began >= limits_.half_open_grace;
}

void StreamProvider::begin_inbound(std::unique_ptr<Stream> stream, Instant now) {
  if (half_open_.size() >= limits_.half_open_max) {
    ++counters_.half_open_dropped;
    half_open_.pop_front();
  }
  ++counters_.accepted;
  auto handshake = std::make_unique<Handshake>(self_, keyring_, fresh_nonce(random_));
  auto link =
      std::make_unique<StreamLink>(std::move(stream), std::move(handshake), limits_, now + limits_.open_timeout);
  half_open_.push_back(std::make_unique<HalfOpen>(std::move(link), now));
}

bool StreamProvider::step_half_open(Instant now) {
  bool moved = false;
  for (auto& half : half_open_) {
    moved |= half->link->step_opening(now);
    if (half->link->state() == LinkState::kUp) {
      ++counters_.proven;
      ready_.push_back(std::move(half->link));
    } else if (half->link->state() == LinkState::kDown) {
      count_unproven(now);
      half->link.reset();
    }
  }
  std::erase_if(half_open_, [](const auto& half) { return half->link == nullptr; });
  return moved;
}

void StreamProvider::count_unproven(Instant now) {
  too_many_unproven(now);  // begins a new second if it is time
  ++counters_.unproven;
  ++unproven_this_second_;
}

bool StreamProvider::too_many_unproven(Instant now) {
  if (now - second_began_ >= 1s) {
    second_began_ = now;
    unproven_this_second_ = 0;
  }
  return unproven_this_second_ >= limits_.unproven_per_second_max;
}

Instant StreamProvider::next_deadline(Instant now) {
  while (!connect_deadlines_.empty() && connect_deadlines_.front() <= now) connect_deadlines_.pop_front();
  Instant next = connect_deadlines_.empty() ? kNever : connect_deadlines_.front();
  if (!half_open_.empty()) {
    next = std::min(next, half_open_.front()->began + limits_.open_timeout);
    if (!has_room(now)) next = std::min(next, half_open_.front()->began + limits_.half_open_grace);
  }
  return next;
}

}  // namespace r2ccl
