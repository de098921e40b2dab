// The vectors of every instruction set this machine has, against the reference, bit by bit.

#include "device/cpu/cpu_device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "device/cpu/scalar.h"

namespace r2ccl {
namespace {

constexpr ReduceKind kKinds[] = {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin};
const ScalarDevice kReference;

// Bits that are special in some type, by the type's width: zeros, subnormals, ones, the largest, infinities, NaNs.
const std::vector<std::uint64_t>& special_bits(std::size_t size) {
  static const std::vector<std::uint64_t> by_size[] = {
      {0x00, 0x01, 0x03, 0x04, 0x08, 0x38, 0x3c, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f},
      {0x0000, 0x0001, 0x007f, 0x0080, 0x03ff, 0x0400, 0x3c00, 0x3f80, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7f7f, 0x7f80,
       0x7f81, 0x7fff},
      {0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff},
      {0, 1, 0xfffffffffffff, 0x10000000000000, 0x3ff0000000000000, 0x7fefffffffffffff, 0x7ff0000000000000,
       0x7ff0000000000001, 0x7ff8000000000000, 0x7fffffffffffffff, 0xffffffff, 0x100000000}};
  return by_size[std::countr_zero(size)];
}

// Half of the elements are random bits, the others are special with a random sign; some are close to one, so that sums
// cancel.
Bytes elements(DataType type, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t size = size_of(type);
  const auto& special = special_bits(size);
  Bytes bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (random() % 2 == 0) bits = special[random() % special.size()] | (random() % 2) << (8 * size - 1);
    std::memcpy(bytes.data() + i * size, &bits, size);
    if (is_float(type) && random() % 4 == 0) {
      from_double(static_cast<double>(random() % 4096) / 1024 - 2, type, bytes.data() + i * size);
    }
  }
  return bytes;
}

// Elements that differ, as a sentence; empty when none does.
std::string difference(ByteView got, ByteView expected, DataType type) {
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; at < expected.size(); at += size) {
    if (std::memcmp(got.data() + at, expected.data() + at, size) == 0) continue;
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, got.data() + at, size);
    std::memcpy(&b, expected.data() + at, size);
    return fmt::format("{} element {}: {:#x}, expected {:#x}", to_text(type), at / size, a, b);
  }
  return "";
}

// Runs a test for each type on each instruction set that is compiled in and that this machine has.
template <class Test>
void on_every_set(Test test) {
  for (const Kernels& kernels : kernels_of_this_processor()) {
    const CpuDevice device(kernels);
    for (std::size_t i = 0; i < kDataTypes; ++i) {
      const auto type = static_cast<DataType>(i);
      SCOPED_TRACE(fmt::format("{} on {}", to_text(type), kernels.name));
      test(device, type);
    }
  }
}

void expect_reduced(const CpuDevice& device, const Bytes& a, const Bytes& b, DataType type, ReduceKind kind) {
  Bytes got(a.size());
  Bytes expected(a.size());
  const std::uint64_t count = a.size() / size_of(type);
  device.reduce(got.data(), a.data(), b.data(), count, type, kind);
  kReference.reduce(expected.data(), a.data(), b.data(), count, type, kind);
  EXPECT_EQ(difference(got, expected, type), "") << "kind " << static_cast<int>(kind);
}

// All pairs of 8-bit elements; of wider ones every special with every special and many random ones.
TEST(CpuDevice, ReduceEqualsTheReference) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const std::size_t size = size_of(type);
    Bytes a;
    Bytes b;
    const std::size_t many = size == 1 ? 256 : 2 * special_bits(size).size();
    for (std::size_t x = 0; x < many * many; ++x) {
      for (auto [bytes, index] : {std::pair{&a, x / many}, std::pair{&b, x % many}}) {
        std::uint64_t bits = index;
        if (size > 1) bits = special_bits(size)[index / 2] | (index % 2) << (8 * size - 1);
        bytes->insert(bytes->end(), reinterpret_cast<const std::byte*>(&bits),
                      reinterpret_cast<const std::byte*>(&bits) + size);
      }
    }
    for (const ReduceKind kind : kKinds) {
      expect_reduced(device, a, b, type, kind);
      expect_reduced(device, elements(type, 20000, 1), elements(type, 20000, 2), type, kind);
    }
  });
}

// Adding -0 changes no number: every code is taken apart and put together again. With 1.5 every code is rounded.
TEST(CpuDevice, EveryCodeOf16BitsIsConvertedAsTheReferenceDoes) {
  on_every_set([](const CpuDevice& device, DataType type) {
    if (size_of(type) != 2) return;
    Bytes codes(2 * 65536);
    for (std::uint32_t code = 0; code < 65536; ++code) std::memcpy(codes.data() + 2 * code, &code, 2);
    for (const double other : {-0.0, 1.5, -1.0, 0.00097, 3.0e4}) {
      std::byte scalar[2];
      from_double(other, type, scalar);
      Bytes second(codes.size());
      for (std::size_t at = 0; at < second.size(); at += 2) std::memcpy(second.data() + at, scalar, 2);
      for (const ReduceKind kind : kKinds) expect_reduced(device, codes, second, type, kind);
      if (other == 0) {
        Bytes same(codes.size());
        device.reduce(same.data(), codes.data(), second.data(), 65536, type, ReduceKind::kSum);
        for (std::size_t at = 0; at < same.size(); at += 2) {
          if (std::isnan(to_double(codes.data() + at, type))) continue;
          ASSERT_EQ(std::memcmp(same.data() + at, codes.data() + at, 2), 0) << "code " << at / 2;
        }
      }
    }
  });
}

TEST(CpuDevice, ScaleEqualsTheReference) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const std::size_t size = size_of(type);
    const Bytes source = elements(type, 3000, 3);
    const Bytes scalars = elements(type, 40, 4);
    for (std::size_t at = 0; at < scalars.size(); at += size) {
      Bytes got(source.size());
      Bytes expected(source.size());
      device.scale(got.data(), source.data(), 3000, type, scalars.data() + at);
      kReference.scale(expected.data(), source.data(), 3000, type, scalars.data() + at);
      ASSERT_EQ(difference(got, expected, type), "") << "scalar " << at / size;
      Bytes in_place = source;
      device.scale(in_place.data(), in_place.data(), 3000, type, scalars.data() + at);
      ASSERT_EQ(difference(in_place, expected, type), "") << "in place, scalar " << at / size;
    }
  });
}

TEST(CpuDevice, DivideEqualsTheReference) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const Bytes data = elements(type, 3000, 5);
    std::vector<std::uint64_t> divisors = {1, 2, 3, 5, 7, 8, 10, 127, 128, 255, 256, 257, 1000, 65537};
    for (const int bit : {31, 32, 33, 62, 63}) {
      for (const int around : {-1, 0, 1})
        divisors.push_back((std::uint64_t{1} << bit) + static_cast<std::uint64_t>(around));
    }
    divisors.push_back(~std::uint64_t{0});
    divisors.push_back(0x8000008000000001);  // to float32 by way of a double it would be rounded twice, and down
    for (const std::uint64_t divisor : divisors) {
      Bytes got = data;
      Bytes expected = data;
      device.divide(got.data(), 3000, type, divisor);
      kReference.divide(expected.data(), 3000, type, divisor);
      ASSERT_EQ(difference(got, expected, type), "") << "divisor " << divisor;
    }
  });
}

// Exactly sized allocations, so that the address sanitizer sees a byte too many; offsets spoil every alignment.
TEST(CpuDevice, AnyCountAtAnyAddressTouchesOnlyItsRange) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const std::size_t size = size_of(type);
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::size_t bytes = count * size;
      const Bytes a = elements(type, count, 100 + count);
      const Bytes b = elements(type, count, 200 + count);
      const std::size_t offsets[] = {count % 3, 1 + count % 5, 2 + count % 7};
      Bytes first(offsets[0] + bytes);
      Bytes second(offsets[1] + bytes);
      if (count > 0) std::memcpy(first.data() + offsets[0], a.data(), bytes);
      if (count > 0) std::memcpy(second.data() + offsets[1], b.data(), bytes);
      for (const ReduceKind kind : kKinds) {
        Bytes destination(offsets[2] + bytes + 3, std::byte{0xa5});
        Bytes expected(bytes);
        kReference.reduce(expected.data(), a.data(), b.data(), count, type, kind);
        device.reduce(destination.data() + offsets[2], first.data() + offsets[0], second.data() + offsets[1], count,
                      type, kind);
        ASSERT_EQ(difference(ByteView(destination).subspan(offsets[2], bytes), expected, type), "")
            << "count " << count;
        for (std::size_t i = 0; i < destination.size(); ++i) {
          const bool outside = i < offsets[2] || i >= offsets[2] + bytes;
          ASSERT_TRUE(!outside || destination[i] == std::byte{0xa5}) << "byte " << i;
        }
      }
    }
  });
}

// Long enough that stores are aligned, where that can be.
TEST(CpuDevice, WhereALongDestinationLiesInItsLineChangesNoBit) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const std::size_t count = 2100 / size_of(type);
    const Bytes a = elements(type, count, 12);
    const Bytes b = elements(type, count, 13);
    Bytes expected(a.size());
    kReference.reduce(expected.data(), a.data(), b.data(), count, type, ReduceKind::kSum);
    Bytes scaled(a.size());
    kReference.scale(scaled.data(), a.data(), count, type, b.data());
    for (std::size_t offset = 0; offset < 64; ++offset) {
      Bytes destination(offset + a.size());
      device.reduce(destination.data() + offset, a.data(), b.data(), count, type, ReduceKind::kSum);
      ASSERT_EQ(difference(ByteView(destination).subspan(offset), expected, type), "") << "offset " << offset;
      device.scale(destination.data() + offset, a.data(), count, type, b.data());
      ASSERT_EQ(difference(ByteView(destination).subspan(offset), scaled, type), "") << "offset " << offset;
    }
  });
}

TEST(CpuDevice, DestinationMayBeFirstSecondOrBoth) {
  on_every_set([](const CpuDevice& device, DataType type) {
    for (const std::size_t count : {1u, 15u, 64u, 333u}) {
      const Bytes a = elements(type, count, 7);
      const Bytes b = elements(type, count, 8);
      for (const ReduceKind kind : kKinds) {
        Bytes expected(a.size());
        kReference.reduce(expected.data(), a.data(), b.data(), count, type, kind);
        Bytes first = a;
        device.reduce(first.data(), first.data(), b.data(), count, type, kind);
        EXPECT_EQ(difference(first, expected, type), "") << "into first";
        Bytes second = b;
        device.reduce(second.data(), a.data(), second.data(), count, type, kind);
        EXPECT_EQ(difference(second, expected, type), "") << "into second";
        kReference.reduce(expected.data(), a.data(), a.data(), count, type, kind);
        Bytes both = a;
        device.reduce(both.data(), both.data(), both.data(), count, type, kind);
        EXPECT_EQ(difference(both, expected, type), "") << "into both";
      }
    }
  });
}

TEST(CpuDevice, CuttingARangeChangesNoBit) {
  on_every_set([](const CpuDevice& device, DataType type) {
    const std::size_t size = size_of(type);
    constexpr std::uint64_t kCount = 150;
    const Bytes a = elements(type, kCount, 9);
    const Bytes b = elements(type, kCount, 10);
    for (const ReduceKind kind : kKinds) {
      Bytes whole(a.size());
      device.reduce(whole.data(), a.data(), b.data(), kCount, type, kind);
      for (std::uint64_t cut = 0; cut <= kCount; ++cut) {
        Bytes parts(a.size());
        const std::size_t at = cut * size;
        device.reduce(parts.data(), a.data(), b.data(), cut, type, kind);
        device.reduce(parts.data() + at, a.data() + at, b.data() + at, kCount - cut, type, kind);
        ASSERT_EQ(difference(parts, whole, type), "") << "cut at " << cut;
      }
    }
  });
}

#ifdef __x86_64__
// A processor whose best set goes unrecognised would only be slow, which no other test would notice.
TEST(CpuDevice, TheBestSetIsTheOneTheKernelKnowsTheProcessorFor) {
  std::ifstream file("/proc/cpuinfo");
  std::string word;
  std::set<std::string> flags;
  while (file >> word && word != "flags") continue;
  std::getline(file, word);
  std::istringstream line(word);
  while (line >> word) flags.insert(word);
  if (flags.empty()) GTEST_SKIP() << "no list of this processor's features here";
  const bool avx2 = flags.contains("avx2") && flags.contains("fma") && flags.contains("bmi2") && flags.contains("f16c");
  const bool avx512 = avx2 && flags.contains("avx512bw") && flags.contains("avx512dq") && flags.contains("avx512vl");
  const bool sse4 = flags.contains("sse4_2") && flags.contains("aes") && flags.contains("pclmulqdq");
  const std::string best =
      avx512 ? "AVX-512" : (avx2 ? "AVX2" : (sse4 ? "SSE4" : (flags.contains("ssse3") ? "SSSE3" : "any")));
  EXPECT_EQ(kernels_of_this_processor().front().name, best);
  EXPECT_EQ(kernels_of_this_processor().back().name, std::string("any"));
}
#endif

TEST(CpuDevice, CopyMovesBytesAndNothingIsAllowed) {
  const CpuDevice device;
  const Bytes source = elements(DataType::kUint8, 1000, 11);
  Bytes destination(source.size());
  device.copy(destination.data(), source.data(), source.size());
  EXPECT_EQ(destination, source);
  device.copy(destination.data(), destination.data(), destination.size());
  EXPECT_EQ(destination, source);
  device.copy(nullptr, nullptr, 0);
  for (std::size_t i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    for (const ReduceKind kind : kKinds) device.reduce(nullptr, nullptr, nullptr, 0, type, kind);
    device.scale(nullptr, nullptr, 0, type, source.data());
    for (const std::uint64_t divisor : {1, 3, 1000}) device.divide(nullptr, 0, type, divisor);
    EXPECT_THROW(device.divide(destination.data(), 1, type, 0), Bug);
  }
}

}  // namespace
}  // namespace r2ccl
