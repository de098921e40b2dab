// Collectives whose counts do not fit into 31 bits and whose offsets do not fit into 32.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/sanitized.h"
#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

constexpr std::uint64_t kCount = (std::uint64_t{1} << 31) + 4099;  // elements of one byte; no multiple of anything
constexpr std::uint64_t kSpare = std::uint64_t{2} << 30;           // for everything else

std::uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (meminfo >> name >> kilobytes >> unit) {
    if (name == "MemAvailable:") return kilobytes << 10;
  }
  return 0;
}

// Why the test can not run here; empty: it can.
std::string reason_to_skip(std::uint64_t buffers) {
  if (kSanitized) return "Billions of checked elements take minutes under a sanitizer.";
  const std::uint64_t available = available_bytes();
  if (available >= buffers + kSpare) return {};
  return fmt::format("This takes {:.1f} GB of memory; {:.1f} GB are available.", double(buffers + kSpare) * 1e-9,
                     double(available) * 1e-9);
}

// Differs from that of every element a power of two away, so that a cut-off index or offset is noticed.
std::uint8_t value_at(std::uint64_t i, std::uint32_t rank) {
  const auto low = static_cast<std::uint32_t>(i);
  const auto high = static_cast<std::uint32_t>(i >> 32);
  return static_cast<std::uint8_t>(low + (low >> 8) * 3 + (low >> 16) * 5 + (low >> 24) * 7 + high * 101 + rank * 29);
}

using Memory = std::unique_ptr<std::uint8_t[]>;

Memory memory_of(std::uint64_t bytes) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
}

template <typename Value>
void fill(std::uint8_t* data, std::uint64_t count, const Value& value) {
  for (std::uint64_t i = 0; i < count; ++i) data[i] = value(i);
}

template <typename Expected>
std::uint64_t first_wrong(const std::uint8_t* data, std::uint64_t count, const Expected& expected) {
  constexpr std::uint64_t kBlock = 1 << 16;  // counted without a branch, so that the compiler can vectorise it
  for (std::uint64_t begin = 0; begin < count; begin += kBlock) {
    const std::uint64_t end = std::min(count, begin + kBlock);
    std::uint32_t wrong = 0;
    for (std::uint64_t i = begin; i < end; ++i) wrong += data[i] != expected(i) ? 1 : 0;
    for (std::uint64_t i = begin; wrong > 0 && i < end; ++i) {
      if (data[i] != expected(i)) return i;
    }
  }
  return count;
}

TEST(Huge, AllReduceOfMoreElementsThanFitInto31Bits) {
  if (const std::string why = reason_to_skip(2 * kCount); !why.empty()) GTEST_SKIP() << why;
  RanksPlan plan;
  run_ranks(plan, [&](Comm& comm, World&) {
    const Memory data = memory_of(kCount);
    fill(data.get(), kCount, [rank = comm.rank()](std::uint64_t i) { return value_at(i, rank); });
    const Status done = comm.run({.input = data.get(), .output = data.get(), .count = kCount, .type = DataType::kInt8});
    ASSERT_TRUE(done) << done.error().what;
    const auto sum = [](std::uint64_t i) { return static_cast<std::uint8_t>(value_at(i, 0) + value_at(i, 1)); };
    EXPECT_EQ(first_wrong(data.get(), kCount, sum), kCount) << "rank " << comm.rank();
  });
}

TEST(Huge, AllGatherOfBlocksBeyond32Bits) {
  if (std::getenv("LONG_TESTS") == nullptr)
    GTEST_SKIP() << "Half a minute and 9 GB; ask for it: LONG_TESTS=1 ctest -R loopback_huge";
  if (const std::string why = reason_to_skip(4 * kCount); !why.empty()) GTEST_SKIP() << why;
  RanksPlan plan;
  run_ranks(plan, [&](Comm& comm, World&) {
    const Memory data = memory_of(2 * kCount);
    std::uint8_t* const mine = data.get() + comm.rank() * kCount;
    fill(mine, kCount, [first = comm.rank() * kCount](std::uint64_t i) { return value_at(first + i, 0); });
    const Status done = comm.run(
        {.kind = CallKind::kAllGather, .input = mine, .output = data.get(), .count = kCount, .type = DataType::kInt8});
    ASSERT_TRUE(done) << done.error().what;
    const auto same = [](std::uint64_t i) { return value_at(i, 0); };
    EXPECT_EQ(first_wrong(data.get(), 2 * kCount, same), 2 * kCount) << "rank " << comm.rank();
  });
}

}  // namespace
}  // namespace r2ccl::loopback
