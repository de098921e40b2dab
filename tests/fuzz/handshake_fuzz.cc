// Anything at all may arrive during a handshake, at either end, after any number of honest messages. Without the secret
// nothing is ever proven, no more than one message is buffered, and every failure has a sentence.
//
// Input: role and how far the honest exchange goes, then a change to the next honest message (where, mask), then
// raw bytes.

#include <algorithm>
#include <cstdlib>

#include "transport/stream/handshake.h"

namespace r2ccl {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

Bytes pass(Handshake& from, Handshake& to) {
  Bytes said(from.output().begin(), from.output().end());
  from.sent(said.size());
  to.take(said);
  return said;
}

void run(ByteView input) {
  Reader in(input);
  const auto mode = in.get<std::uint8_t>();
  const auto where = in.get<std::uint8_t>();
  const auto mask = in.get<std::uint8_t>();
  Secret secret{};
  Keyring ring;
  const KeyId key = ring.add(secret);
  Nonce here{};
  Nonce there{};
  there[0] = std::byte{1};
  Handshake connector(Hello{Purpose::kData, key, ProcessId{1}, ProcessId{2}, PathId{}}, secret, here);
  Handshake acceptor(ProcessId{2}, ring, there);

  const bool attack_acceptor = (mode & 1) != 0;
  Handshake& victim = attack_acceptor ? acceptor : connector;
  Handshake& friend_of_victim = attack_acceptor ? connector : acceptor;
  if (!attack_acceptor || (mode & 2) != 0) pass(connector, acceptor);
  if ((mode & 2) != 0) {
    pass(acceptor, connector);
    if (!attack_acceptor) pass(connector, acceptor);
  }
  require(victim.state() == Handshake::State::kTalking);

  // The next honest message with one byte changed, or not sent at all; then whatever the input says.
  Bytes said(friend_of_victim.output().begin(), friend_of_victim.output().end());
  const bool changed = mask != 0 && !said.empty();
  if (changed) {
    said[where % said.size()] ^= static_cast<std::byte>(mask);
    victim.take(said);
  }
  while (in.left() > 0 && victim.state() == Handshake::State::kTalking) {
    const ByteView bytes = in.take(std::min<std::size_t>(1 + in.get<std::uint8_t>(), in.left()));
    const std::size_t taken = victim.take(bytes);
    require(taken <= bytes.size());
    require(taken == bytes.size() || victim.state() != Handshake::State::kTalking);
  }
  require(victim.state() != Handshake::State::kProven);
  if (victim.state() == Handshake::State::kFailed) require(victim.cause() != Cause::kNone && !victim.error().empty());
  require(victim.output().size() <= kHelloBytes + kHandshakeMessageBytesMax);
}

}  // namespace
}  // namespace r2ccl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  r2ccl::run(std::as_bytes(std::span(data, size)));
  return 0;
}
