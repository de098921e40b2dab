#pragma once
// One call of the API as a value.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "device/data_type.h"

namespace r2ccl {

// The first eight are schedule.h's collectives, in its order.
enum class CallKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kRecv,
};
std::string_view to_text(CallKind kind);  // "AllReduce"
constexpr bool is_point_to_point(CallKind kind) {
  return kind >= CallKind::kSend;
}
constexpr bool reduces(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter || kind == CallKind::kReduce;
}
constexpr bool has_root(CallKind kind) {
  return kind == CallKind::kBroadcast || kind == CallKind::kReduce || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}
// The count is that of one rank's block.
constexpr bool counts_blocks(CallKind kind) {
  return kind != CallKind::kAllReduce && kind != CallKind::kBroadcast && kind != CallKind::kReduce &&
         !is_point_to_point(kind);
}
// A rank's buffer is its own block only.
constexpr bool input_is_block(CallKind kind) {
  return kind == CallKind::kAllGather || kind == CallKind::kGather;
}
constexpr bool output_is_block(CallKind kind) {
  return kind == CallKind::kReduceScatter || kind == CallKind::kScatter;
}

struct ReduceOp {
  ReduceName name = ReduceName::kSum;
  std::uint64_t scalar = 0;  // kPreMulSum: the bits of one element of the type, in the low bytes
  friend bool operator==(const ReduceOp&, const ReduceOp&) = default;
};

// Counts as NCCL counts them: elements of the buffer for all_reduce, broadcast, reduce, send and recv; of one rank's
// block for the others.
struct Call {
  CallKind kind = CallKind::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op{};
  std::uint32_t peer = 0;  // root, or the other rank of a send or recv
};

// What all ranks must have in common, in 64 bits; what differs by rank (buffers, scalars) is left out. Never 0.
std::uint64_t signature_of(const Call& call);
std::string describe(const Call& call);  // "AllReduce of 1024 float, sum"
// kMisuse with a sentence for null pointers, roots and peers out of range, sizes that do not fit into 64 bits. `size`:
// ranks of the communicator.
Status validate(const Call& call, std::uint32_t rank, std::uint32_t size);

}  // namespace r2ccl
