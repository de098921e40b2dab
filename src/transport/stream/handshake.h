#pragma once
// Mutual keyed challenge and response: bytes in, bytes out, no I/O and no clock. Each end proves that it knows the
// secret named in HELLO before any frame is parsed; nonces are fresh, so a recorded exchange proves nothing.
//
//   connector                                acceptor
//   HELLO(hello, nonce)              ──▶
//                                    ◀──     CHALLENGE(process, nonce, MAC("server" HELLO CHALLENGE-without-MAC))
//   PROOF(MAC("client" HELLO CHALLENGE)) ──▶
//                                    ◀──     ACCEPT(MAC("accept" HELLO CHALLENGE PROOF))
//                                    ◀──     or, at any point, REFUSE(reason) and the end of the stream
//
//   role       waits for   and then                                         next
//   acceptor   HELLO       version, process and key fit: sends CHALLENGE     waits for PROOF
//   acceptor   HELLO       they do not: sends REFUSE                         failed
//   acceptor   PROOF       right: sends ACCEPT                               proven
//   acceptor   PROOF       wrong: sends REFUSE                               failed
//   connector  CHALLENGE   right: sends PROOF                                waits for ACCEPT
//   connector  ACCEPT      right                                             proven
//   connector  either      wrong, or REFUSE                                  failed
//   both       any         anything else                                     failed
//
// Every message has a fixed size and begins with the same 8 bytes, in this and every later version, so that two
// releases can refuse each other with a sentence: magic "R2CC", version u16, kind u8, reason u8 (REFUSE only, otherwise
// zero).
//
//   HELLO      8 + features u32, purpose u8, zero u8, path u16, key u64, from u64, to u64, nonce 32    = 72 bytes
//   CHALLENGE  8 + features u32, zero u32, process u64, nonce 32, MAC 32                              = 88 bytes
//   PROOF      8 + MAC 32                                                                            = 40 bytes
//   ACCEPT     8 + MAC 32                                                                            = 40 bytes
//   REFUSE     8                                                                                     =  8 bytes
//
// Feature bits name optional behaviour; both ends use what both have. Version 2 has none and ignores those it is
// offered.

#include <array>
#include <string>

#include "transport/link.h"
#include "transport/stream/keyring.h"

namespace r2ccl {

inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::uint32_t kFeatures = 0;

inline constexpr std::size_t kHandshakePrefixBytes = 8;
inline constexpr std::size_t kHelloBytes = 72;
inline constexpr std::size_t kChallengeBytes = 88;
inline constexpr std::size_t kProofBytes = 40;
inline constexpr std::size_t kAcceptBytes = 40;
inline constexpr std::size_t kRefuseBytes = 8;
inline constexpr std::size_t kHandshakeMessageBytesMax = kChallengeBytes;

enum class Refusal : std::uint8_t { kNone = 0, kVersion = 1, kOtherProcess = 2, kUnknownKey = 3, kBadProof = 4 };

using Nonce = std::array<std::byte, 32>;

class Handshake final {
 public:
  enum class State : std::uint8_t { kTalking, kProven, kFailed };

  // The connecting end. `nonce` must never have been used before.
  Handshake(const Hello& hello, const Secret& secret, const Nonce& nonce);
  // The accepting end. `keyring` is borrowed for the lifetime of this object.
  Handshake(ProcessId self, const Keyring& keyring, const Nonce& nonce);
  ~Handshake();  // wipes its copy of the secret
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Takes bytes that arrived; returns how many belong to the handshake. The rest belongs to whatever follows it.
  std::size_t take(ByteView in);
  // Bytes to send. kProven counts only after they went out; on kFailed they are the polite refusal.
  ByteView output() const { return ByteView(output_).subspan(output_sent_); }
  void sent(std::size_t bytes) { output_sent_ += bytes; }

  State state() const { return state_; }
  Cause cause() const { return cause_; }               // kNone unless failed
  const std::string& error() const { return error_; }  // one sentence without anything secret
  const Hello& hello() const { return hello_; }
  ProcessId peer() const { return peer_; }

 private:
  enum class Kind : std::uint8_t { kHello = 1, kChallenge = 2, kProof = 3, kAccept = 4, kRefuse = 5 };

  void on_prefix();
  void on_message();
  void on_hello();
  void on_challenge();
  void on_proof();
  void on_accept();
  void on_refuse(Refusal reason, std::uint16_t version);
  void refuse(Refusal reason, std::string error);
  void fail_with(Cause cause, std::string error);
  void expect(Kind kind);
  void send(ByteView message);
  Proof proof_over_transcript(std::string_view label) const;
  ByteView message() const { return ByteView(in_).first(wanted_); }
  static void put_prefix(Writer& out, Kind kind, Refusal reason = Refusal::kNone);
  static std::size_t size_of(Kind kind);

  const bool connector_;
  const ProcessId self_;
  const Keyring* const keyring_;  // acceptor only
  const Nonce nonce_;
  Secret secret_{};
  State state_ = State::kTalking;
  Cause cause_ = Cause::kNone;
  std::string error_;
  Hello hello_;
  ProcessId peer_;

  Kind awaited_ = Kind::kHello;
  std::array<std::byte, kHandshakeMessageBytesMax> in_{};
  std::size_t have_ = 0;
  std::size_t wanted_ = kHandshakePrefixBytes;  // first the prefix, then the whole message
  bool prefix_checked_ = false;
  Bytes transcript_;  // HELLO, CHALLENGE, PROOF as far as they were exchanged
  Bytes output_;
  std::size_t output_sent_ = 0;
};

}  // namespace r2ccl
