#include "apps/r2ccl/perf/perf_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "device/cpu/scalar.h"
#include "device/device.h"

namespace r2ccl::apps {
namespace {

constexpr std::uint64_t kLargest = 1000;  // large enough to tell elements apart
constexpr std::uint32_t kDoublings = 6;   // of a product: 64 fits into every type

// All whole numbers up to here are exact.
std::uint64_t exact_up_to(DataType type) {
  switch (type) {
    case DataType::kFloat8e5m2:
      return 8;
    case DataType::kFloat8e4m3:
      return 16;
    case DataType::kInt8:
    case DataType::kUint8:  // more would fit, but unwritten memory must not look like a value
      return 127;
    case DataType::kBfloat16:
      return 256;
    case DataType::kFloat16:
      return 2048;
    default:
      return 1 << 24;
  }
}

// Neighbouring inputs give unrelated outputs.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// What one rank may add to a sum. 0: more ranks than the type can count.
std::uint64_t share_of_sum(DataType type, std::uint32_t ranks) {
  return std::min(kLargest, exact_up_to(type) / std::max(1U, ranks));
}

double premul_factor(DataType type, std::uint32_t ranks, std::uint32_t rank) {
  return share_of_sum(type, ranks) >= 2 ? 1 + rank % 2 : 1;
}

// An average of floats multiplies every input by 1/n first. These are the multiples of n for which that is exact.
std::vector<double> whole_averages(DataType type, std::uint32_t ranks) {
  std::array<std::byte, 8> scalar{};
  reciprocal(ranks, type, scalar);
  const ScalarDevice device;
  std::vector<double> averages;
  for (std::uint64_t k = 0; k <= share_of_sum(type, ranks); ++k) {
    const auto wanted = static_cast<double>(k * ranks);
    std::array<std::byte, 8> element{};
    from_double(wanted, type, element.data());
    if (to_double(element.data(), type) != wanted) continue;
    if (ranks > 1) device.scale(element.data(), element.data(), 1, type, scalar.data());
    if (to_double(element.data(), type) == static_cast<double>(k)) averages.push_back(static_cast<double>(k));
  }
  return averages;
}

}  // namespace

std::uint64_t premul_scalar(DataType type, std::uint32_t ranks, std::uint32_t rank) {
  std::array<std::byte, 8> element{};
  from_double(premul_factor(type, ranks, rank), type, element.data());
  std::uint64_t bits = 0;
  std::memcpy(&bits, element.data(), sizeof bits);
  return bits;
}

PerfData::PerfData(DataType type, ReduceName op, std::uint32_t ranks)
    : type_(type), op_(op), ranks_(ranks), sent_(ranks, std::vector<double>(kPeriod)), sent_bits_(ranks) {
  R2CCL_ASSERT(ranks > 0, "data of no rank");
  if (op == ReduceName::kAvg && is_float(type)) averages_ = whole_averages(type, ranks);
}

double PerfData::draw_one(std::uint64_t random, std::uint32_t rank, std::uint64_t element) const {
  // Ranks take turns where only some of them may add anything.
  const std::uint64_t turn = (rank + element) % ranks_;
  switch (op_) {
    case ReduceName::kProd:
      return turn < kDoublings && (random & 1) != 0 ? 2 : 1;
    case ReduceName::kMax:
    case ReduceName::kMin:
      return static_cast<double>(random % (std::min(kLargest, exact_up_to(type_)) + 1));
    case ReduceName::kAvg:
      if (is_float(type_)) return averages_[random % averages_.size()] * ranks_;
      break;
    case ReduceName::kSum:
    case ReduceName::kPreMulSum:
      break;
  }
  const std::uint64_t share = share_of_sum(type_, ranks_);
  if (share == 0) return turn < exact_up_to(type_) ? static_cast<double>(random & 1) : 0;
  const double factor = op_ == ReduceName::kPreMulSum ? premul_factor(type_, ranks_, rank) : 1;
  return static_cast<double>(random % (static_cast<std::uint64_t>(static_cast<double>(share) / factor) + 1));
}

void PerfData::draw(std::uint64_t operation) {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const std::uint64_t seed = mix(mix(operation + 1) + rank);
    for (std::uint64_t i = 0; i < kPeriod; ++i) sent_[rank][i] = draw_one(mix(seed + i), rank, i);
    sent_bits_[rank] = encode(sent_[rank]);
  }
  std::vector<double> all(kPeriod);
  for (std::uint64_t i = 0; i < kPeriod; ++i) all[i] = reduced(i);
  reduced_bits_ = encode(all);
}

double PerfData::reduced(std::uint64_t element) const {
  const bool whole = op_ == ReduceName::kAvg && !is_float(type_);
  double result = sent(0, element) * (op_ == ReduceName::kPreMulSum ? premul_factor(type_, ranks_, 0) : 1);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const double value = sent(rank, element);
    switch (op_) {
      case ReduceName::kSum:
      case ReduceName::kAvg:
        result += value;
        break;
      case ReduceName::kPreMulSum:
        result += value * premul_factor(type_, ranks_, rank);
        break;
      case ReduceName::kProd:
        result *= value;
        break;
      case ReduceName::kMax:
        result = std::max(result, value);
        break;
      case ReduceName::kMin:
        result = std::min(result, value);
        break;
    }
  }
  if (op_ != ReduceName::kAvg) return result;
  return whole ? std::trunc(result / ranks_) : result / ranks_;
}

PerfData::Bits PerfData::encode(std::span<const double> values) const {
  const std::size_t size = size_of(type_);
  Bits bits(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) from_double(values[i], type_, bits.data() + i * size);
  return bits;
}

void PerfData::fill(std::span<std::byte> memory, std::uint32_t rank, std::uint64_t from) const {
  const Bits& bits = sent_bits_[rank];
  std::size_t offset = from % kPeriod * size_of(type_);
  while (!memory.empty()) {
    const std::size_t part = std::min(memory.size(), bits.size() - offset);
    std::memcpy(memory.data(), bits.data() + offset, part);
    memory = memory.subspan(part);
    offset = 0;
  }
}

std::uint64_t PerfData::count_wrong(std::span<const std::byte> memory, const Expected& expected) const {
  const std::size_t size = size_of(type_);
  R2CCL_ASSERT(memory.size() == expected.count * size, "the memory is what is expected long");
  const Bits& bits = expected.reduced ? reduced_bits_ : sent_bits_[expected.source];
  std::size_t offset = expected.from % kPeriod * size;
  std::uint64_t wrong = 0;
  while (!memory.empty()) {
    const std::size_t part = std::min(memory.size(), bits.size() - offset);
    if (std::memcmp(memory.data(), bits.data() + offset, part) != 0) {
      for (std::size_t i = 0; i < part; i += size)
        wrong += std::memcmp(memory.data() + i, bits.data() + offset + i, size) != 0 ? 1 : 0;
    }
    memory = memory.subspan(part);
    offset = 0;
  }
  return wrong;
}

}  // namespace r2ccl::apps
