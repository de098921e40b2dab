#include "transport/stream/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "base/assert.h"

namespace r2ccl {
namespace {

constexpr std::string_view kMagic = "R2CC";

ByteView bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool known_purpose(std::uint8_t value) {
  return value >= static_cast<std::uint8_t>(Purpose::kData) && value <= static_cast<std::uint8_t>(Purpose::kProbe);
}

}  // namespace

void Handshake::put_prefix(Writer& out, Kind kind, Refusal reason) {
  out.put(bytes_of(kMagic));
  out.put(kProtocolVersion);
  out.put(static_cast<std::uint8_t>(kind));
  out.put(static_cast<std::uint8_t>(reason));
}

std::size_t Handshake::size_of(Kind kind) {
  switch (kind) {
    case Kind::kHello:
      return kHelloBytes;
    case Kind::kChallenge:
      return kChallengeBytes;
    case Kind::kProof:
      return kProofBytes;
    case Kind::kAccept:
      return kAcceptBytes;
    case Kind::kRefuse:
      return kRefuseBytes;
  }
  return 0;
}

Handshake::Handshake(const Hello& hello, const Secret& secret, const Nonce& nonce)
    : connector_(true), self_(hello.from), keyring_(nullptr), nonce_(nonce), secret_(secret), hello_(hello) {
  Bytes message;
  Writer out(message);
  put_prefix(out, Kind::kHello);
  out.put(kFeatures);
  out.put(static_cast<std::uint8_t>(hello.purpose));
  out.put(std::uint8_t{0});
  out.put(hello.path.packed());
  out.put(hello.key.value);
  out.put(hello.from.value);
  out.put(hello.to.value);
  out.put(nonce);
  R2CCL_ASSERT(message.size() == kHelloBytes, "HELLO has another size than documented");
  transcript_ = message;
  send(message);
  awaited_ = Kind::kChallenge;
}

Handshake::Handshake(ProcessId self, const Keyring& keyring, const Nonce& nonce)
    : connector_(false), self_(self), keyring_(&keyring), nonce_(nonce) {}

Handshake::~Handshake() {
  sodium_memzero(secret_.data(), secret_.size());
}

std::size_t Handshake::take(ByteView in) {
  std::size_t taken = 0;
  while (state_ == State::kTalking && taken < in.size()) {
    const std::size_t count = std::min(wanted_ - have_, in.size() - taken);
    std::memcpy(in_.data() + have_, in.data() + taken, count);
    have_ += count;
    taken += count;
    if (have_ < wanted_) break;
    if (prefix_checked_) {
      on_message();
    } else {
      on_prefix();
    }
  }
  return taken;
}

void Handshake::on_prefix() {
  Reader in(message());
  const ByteView magic = in.take(kMagic.size());
  const auto version = in.get<std::uint16_t>();
  const auto kind = static_cast<Kind>(in.get<std::uint8_t>());
  const auto reason = static_cast<Refusal>(in.get<std::uint8_t>());
  if (!std::ranges::equal(magic, bytes_of(kMagic))) {
    return fail_with(Cause::kUnproven, "the other end does not speak this protocol");
  }
  if (connector_ && kind == Kind::kRefuse) return on_refuse(reason, version);
  if (version != kProtocolVersion) {
    const auto error =
        fmt::format("the other end speaks protocol version {}, this one version {}", version, kProtocolVersion);
    return connector_ ? fail_with(Cause::kUnproven, error) : refuse(Refusal::kVersion, error);
  }
  if (kind != awaited_ || reason != Refusal::kNone) {
    return fail_with(Cause::kUnproven, "the other end sent a handshake message out of order");
  }
  prefix_checked_ = true;
  wanted_ = size_of(kind);
}

void Handshake::on_message() {
  switch (awaited_) {
    case Kind::kHello:
      return on_hello();
    case Kind::kChallenge:
      return on_challenge();
    case Kind::kProof:
      return on_proof();
    case Kind::kAccept:
      return on_accept();
    case Kind::kRefuse:
      break;
  }
  R2CCL_ASSERT(false, "nobody waits for a refusal");
}

void Handshake::on_hello() {
  Reader in(message().subspan(kHandshakePrefixBytes));
  in.get<std::uint32_t>();  // features: this version has none
  const auto purpose = in.get<std::uint8_t>();
  const auto zero = in.get<std::uint8_t>();
  hello_.path = PathId::unpack(in.get<std::uint16_t>());
  hello_.key.value = in.get<std::uint64_t>();
  hello_.from.value = in.get<std::uint64_t>();
  hello_.to.value = in.get<std::uint64_t>();
  if (!known_purpose(purpose) || zero != 0) return fail_with(Cause::kUnproven, "the other end sent a malformed HELLO");
  hello_.purpose = static_cast<Purpose>(purpose);
  if (hello_.to != ProcessId{} && hello_.to != self_) {
    return refuse(Refusal::kOtherProcess,
                  fmt::format("the connector wants process {:016x}, this is {:016x}", hello_.to.value, self_.value));
  }
  const Secret* secret = keyring_->find(hello_.key);
  if (secret == nullptr) {
    return refuse(Refusal::kUnknownKey,
                  fmt::format("the connector names key {:016x}, which is unknown here", hello_.key.value));
  }
  secret_ = *secret;
  peer_ = hello_.from;
  transcript_.assign(message().begin(), message().end());

  Bytes challenge;
  Writer out(challenge);
  put_prefix(out, Kind::kChallenge);
  out.put(kFeatures);
  out.put(std::uint32_t{0});
  out.put(self_.value);
  out.put(nonce_);
  Writer(transcript_).put(challenge);
  const Proof proof = proof_over_transcript("server");
  out.put(proof);
  Writer(transcript_).put(proof);
  R2CCL_ASSERT(challenge.size() == kChallengeBytes, "CHALLENGE has another size than documented");
  send(challenge);
  expect(Kind::kProof);
}

void Handshake::on_challenge() {
  const ByteView unsigned_part = message().first(kChallengeBytes - sizeof(Proof));
  const ByteView proof = message().last(sizeof(Proof));
  Writer(transcript_).put(unsigned_part);
  if (!same_proof(proof_over_transcript("server"), proof)) {
    return fail_with(Cause::kUnproven, "the answering end does not know the secret");
  }
  Reader in(unsigned_part.subspan(kHandshakePrefixBytes + 8));
  peer_.value = in.get<std::uint64_t>();
  if (hello_.to != ProcessId{} && hello_.to != peer_) {
    return fail_with(Cause::kUnproven,
                     fmt::format("process {:016x} answered instead of {:016x}", peer_.value, hello_.to.value));
  }
  Writer(transcript_).put(proof);

  Bytes answer;
  Writer out(answer);
  put_prefix(out, Kind::kProof);
  out.put(proof_over_transcript("client"));
  Writer(transcript_).put(answer);
  send(answer);
  expect(Kind::kAccept);
}

void Handshake::on_proof() {
  if (!same_proof(proof_over_transcript("client"), message().last(sizeof(Proof)))) {
    return refuse(Refusal::kBadProof, "the connector does not know the secret");
  }
  Writer(transcript_).put(message());
  Bytes accept;
  Writer out(accept);
  put_prefix(out, Kind::kAccept);
  out.put(proof_over_transcript("accept"));
  send(accept);
  state_ = State::kProven;
}

void Handshake::on_accept() {
  if (!same_proof(proof_over_transcript("accept"), message().last(sizeof(Proof)))) {
    return fail_with(Cause::kUnproven, "the answering end's acceptance is forged");
  }
  state_ = State::kProven;
}

// Refusals carry no proof. They only end this attempt, and anybody between the ends could do that anyway.
void Handshake::on_refuse(Refusal reason, std::uint16_t version) {
  switch (reason) {
    case Refusal::kVersion:
      return fail_with(Cause::kUnproven,
                       fmt::format("refused: the other end speaks protocol version {}, this one version {}", version,
                                   kProtocolVersion));
    case Refusal::kOtherProcess:
      // The process we mean is not there any more; that is as if nobody listened.
      return fail_with(Cause::kRefused, fmt::format("refused: process {:016x} does not listen there", hello_.to.value));
    case Refusal::kUnknownKey:
      return fail_with(Cause::kUnproven,
                       fmt::format("refused: the other end does not know key {:016x}", hello_.key.value));
    case Refusal::kBadProof:
      return fail_with(Cause::kUnproven, "refused: the other end holds another secret");
    case Refusal::kNone:
      break;
  }
  fail_with(Cause::kUnproven, "refused by the other end for a reason this version does not know");
}

void Handshake::refuse(Refusal reason, std::string error) {
  Bytes message;
  Writer out(message);
  put_prefix(out, Kind::kRefuse, reason);
  send(message);
  fail_with(Cause::kUnproven, std::move(error));
}

void Handshake::fail_with(Cause cause, std::string error) {
  state_ = State::kFailed;
  cause_ = cause;
  error_ = std::move(error);
}

void Handshake::expect(Kind kind) {
  awaited_ = kind;
  have_ = 0;
  wanted_ = kHandshakePrefixBytes;
  prefix_checked_ = false;
}

void Handshake::send(ByteView message) {
  Writer(output_).put(message);
}

Proof Handshake::proof_over_transcript(std::string_view label) const {
  Bytes data;
  Writer out(data);
  out.put(bytes_of(label));
  out.put(transcript_);
  return keyed_proof(secret_, data);
}

}  // namespace r2ccl
