#pragma once
// The bodies of a session's frames, as values and as bytes. Little-endian, fixed order, nothing optional: a body that
// is short or has bytes left over is refused whole. Types keep their numbers; new ones need a new protocol version
// (transport/stream/handshake.h).

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "base/interval_set.h"
#include "env/secret.h"
#include "topology/path_state.h"

namespace r2ccl {

enum class FrameType : std::uint8_t {
  kOpen = 1,       // OpenBody; connector, first frame
  kOpenAck = 2,    // OpenBody; acceptor, settles the epoch
  kData = 3,       // DataBody, then the chunk
  kCredit = 4,     // list of CreditEntry
  kReceipt = 5,    // ReceiptBody
  kResend = 6,     // list of CopyName: copies that did not land
  kPathDown = 7,   // PathDownBody
  kFenced = 8,     // FencedBody
  kHeartbeat = 9,  // empty
  kJoin = 10,      // JoinBody
  kGroupEnd = 11,  // GroupId
  kNicState = 12,  // list of NicStateEntry
  kPathIdle = 13,  // PathIdleBody
  kBye = 14,       // empty
  kByeAck = 15,    // empty
  kNotice = 16,    // kind u8, then bytes: a notice of the layers above that the control network may not carry
};

inline constexpr std::size_t kRangesMax = 1024;  // ranges of an IntervalSet in one frame
inline constexpr std::size_t kListMax = 400;     // entries of a list in one frame

struct OpenBody {
  Epoch epoch;                    // proposed; in the ack, agreed
  std::uint64_t eager_bytes = 0;  // the whole grant of whoever receives this frame
  IntervalSet have;               // FENCED for every older epoch of this path
};

struct DataBody {
  enum Flags : std::uint8_t {
    kVoid = 1,      // the message was abandoned; only the number counts
    kOversize = 2,  // the message is longer than the receive posted for it; both ends report misuse
    kEager = 4,     // sent without a posted receive, counted against the grant
  };
  ChunkId chunk;
  GroupId group;
  StreamId stream;
  std::uint64_t sequence = 0;
  std::uint64_t tag = 0;
  std::uint64_t total = 0;   // length of the message
  std::uint64_t offset = 0;  // where this chunk begins in the message
  std::uint16_t copy = 0;    // which transmission of the chunk this is
  std::uint8_t flags = 0;
};

struct CreditEntry {
  GroupId group;
  StreamId stream;
  std::uint64_t sequence = 0;
  std::uint64_t capacity = 0;
  std::uint64_t tag = 0;
};

struct ReceiptBody {
  std::uint64_t eager_released = 0;  // cumulative
  IntervalSet have;
};

struct CopyName {
  ChunkId chunk;
  std::uint16_t copy = 0;
};

struct PathDownBody {
  PathId path;
  Epoch epoch;
  Cause cause = Cause::kNone;
};

struct FencedBody {
  PathId path;
  Epoch epoch;
  IntervalSet have;
};

struct JoinBody {
  GroupId group;
  Proof proof{};
};
// The process `from` shows this to the process `to` to prove that it belongs to the group.
Proof join_proof(const Secret& secret, GroupId group, ProcessId from, ProcessId to);

struct NicStateEntry {
  NicId nic;
  std::uint32_t version = 0;  // counts the NIC's changes: news over two channels may overtake each other
  bool carrier = true;
  bool drained = false;
};

struct PathIdleBody {
  PathId path;
  Epoch epoch;
};

Bytes encode(const OpenBody& body);
void encode(const DataBody& body, Bytes& out);  // clears `out`; no allocation once it has grown
Bytes encode(std::span<const CreditEntry> credits);
Bytes encode(const ReceiptBody& body);
Bytes encode(std::span<const CopyName> copies);
Bytes encode(const PathDownBody& body);
Bytes encode(const FencedBody& body);
Bytes encode(const JoinBody& body);
Bytes encode(GroupId group);
Bytes encode(std::span<const NicStateEntry> nics);
Bytes encode(const PathIdleBody& body);

// Nothing on malformed bytes.
template <class Body>
std::optional<Body> decode(ByteView bytes);
template <>
std::optional<OpenBody> decode(ByteView bytes);
template <>
std::optional<DataBody> decode(ByteView bytes);
template <>
std::optional<std::vector<CreditEntry>> decode(ByteView bytes);
template <>
std::optional<ReceiptBody> decode(ByteView bytes);
template <>
std::optional<std::vector<CopyName>> decode(ByteView bytes);
template <>
std::optional<PathDownBody> decode(ByteView bytes);
template <>
std::optional<FencedBody> decode(ByteView bytes);
template <>
std::optional<JoinBody> decode(ByteView bytes);
template <>
std::optional<GroupId> decode(ByteView bytes);
template <>
std::optional<std::vector<NicStateEntry>> decode(ByteView bytes);
template <>
std::optional<PathIdleBody> decode(ByteView bytes);

}  // namespace r2ccl
