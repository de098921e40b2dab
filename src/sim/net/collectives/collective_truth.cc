#include "sim/net/collectives/collective_truth.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/assert.h"

namespace r2ccl::sim {
namespace {

template <class T>
T combine(T a, T b, ReduceName op) {
  using Wrapping = std::make_unsigned_t<T>;
  if (op == ReduceName::kMax) return std::max(a, b);
  if (op == ReduceName::kMin) return std::min(a, b);
  if (op == ReduceName::kProd) return static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
  return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
}

template <class T>
T get(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
Bytes reduce_all(std::uint64_t name, const std::vector<Bytes>& inputs, ReduceName op) {
  Bytes result(inputs[0].size());
  std::vector<T> scalars(inputs.size(), T{1});
  if (op == ReduceName::kPreMulSum) {
    for (std::uint32_t rank = 0; rank < inputs.size(); ++rank) scalars[rank] = static_cast<T>(scalar_of(name, rank));
  }
  for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
    T value = combine(get<T>(inputs[0], i), scalars[0], ReduceName::kProd);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank)
      value = combine(value, combine(get<T>(inputs[rank], i), scalars[rank], ReduceName::kProd), op);
    if (op == ReduceName::kAvg) value = static_cast<T>(value / static_cast<T>(inputs.size()));
    std::memcpy(result.data() + i * sizeof(T), &value, sizeof(T));
  }
  return result;
}

Bytes reduce_all(std::uint64_t name, const std::vector<Bytes>& inputs, const PlannedCall& call) {
  switch (call.type) {
    case DataType::kInt8:
      return reduce_all<std::int8_t>(name, inputs, call.op);
    case DataType::kUint8:
      return reduce_all<std::uint8_t>(name, inputs, call.op);
    case DataType::kInt32:
      return reduce_all<std::int32_t>(name, inputs, call.op);
    case DataType::kUint32:
      return reduce_all<std::uint32_t>(name, inputs, call.op);
    case DataType::kInt64:
      return reduce_all<std::int64_t>(name, inputs, call.op);
    case DataType::kUint64:
      return reduce_all<std::uint64_t>(name, inputs, call.op);
    default:
      R2CCL_ASSERT(false, "only integers are planned");
  }
}

Bytes part(const Bytes& bytes, std::size_t block, std::size_t block_bytes) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(block * block_bytes);
  return {first, first + static_cast<std::ptrdiff_t>(block_bytes)};
}

}  // namespace

CallLayout layout_of(const PlannedCall& call, std::uint32_t rank, std::uint32_t ranks) {
  const std::size_t block = call.count * size_of(call.type);
  const std::size_t all = block * ranks;
  const bool root = rank == call.root;
  CallLayout layout{.input_bytes = block, .output_bytes = block};
  layout.shared = (call.in_place >> rank & 1) != 0;
  switch (call.kind) {
    case CallKind::kAllReduce:
      break;
    case CallKind::kReduceScatter:
      layout.input_bytes = all;
      break;
    case CallKind::kAllGather:
      layout.output_bytes = all;
      break;
    case CallKind::kBroadcast:
      layout.input_bytes = root ? block : 0;
      break;
    case CallKind::kReduce:
      layout.output_bytes = root ? block : 0;
      break;
    case CallKind::kGather:
      layout.output_bytes = root ? all : 0;
      break;
    case CallKind::kScatter:
      layout.input_bytes = root ? all : 0;
      break;
    case CallKind::kAllToAll:
      layout.input_bytes = layout.output_bytes = all;
      break;
    case CallKind::kSend:
    case CallKind::kRecv:
      R2CCL_ASSERT(false, "a transfer is no call of a plan");
  }
  if (layout.input_bytes == 0 || layout.output_bytes == 0) layout.shared = false;
  if (layout.shared && layout.input_bytes < layout.output_bytes) layout.input_at = rank * block;
  if (layout.shared && layout.output_bytes < layout.input_bytes) layout.output_at = rank * block;
  return layout;
}

std::uint64_t scalar_of(std::uint64_t name, std::uint32_t rank) {
  return mix64(name + rank);
}

Bytes input_of(std::uint64_t name, const PlannedCall& call, std::uint32_t rank, std::uint32_t ranks) {
  Bytes bytes(layout_of(call, rank, ranks).input_bytes);
  SimRandom(mix64(name) ^ rank).fill(bytes);
  return bytes;
}

CallTruth::CallTruth(std::uint64_t name, const PlannedCall& call, std::uint32_t ranks) : call_(call), ranks_(ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) inputs_.push_back(input_of(name, call, rank, ranks));
  if (reduces(call.kind)) reduced_ = reduce_all(name, inputs_, call);
}

Bytes CallTruth::output(std::uint32_t rank) const {
  const std::size_t block = call_.count * size_of(call_.type);
  if (layout_of(call_, rank, ranks_).output_bytes == 0) return {};
  Bytes joined;
  switch (call_.kind) {
    case CallKind::kReduceScatter:
      return part(reduced_, rank, block);
    case CallKind::kBroadcast:
      return inputs_[call_.root];
    case CallKind::kScatter:
      return part(inputs_[call_.root], rank, block);
    case CallKind::kAllGather:
    case CallKind::kGather:
      for (const Bytes& input : inputs_) joined.insert(joined.end(), input.begin(), input.end());
      return joined;
    case CallKind::kAllToAll:
      for (const Bytes& input : inputs_) {
        const Bytes mine = part(input, rank, block);
        joined.insert(joined.end(), mine.begin(), mine.end());
      }
      return joined;
    default:
      return reduced_;
  }
}

}  // namespace r2ccl::sim
