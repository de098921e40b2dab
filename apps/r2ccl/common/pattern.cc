#include "apps/r2ccl/common/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace r2ccl::apps {
namespace {

constexpr std::size_t kBlockWords = 512;
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;  // odd, with bits everywhere: all words of a message differ
using PatternBlock = std::array<std::uint64_t, kBlockWords>;

std::uint64_t first_word(const MessageName& message) {
  std::uint64_t mixed = message.sequence * kStep ^ (std::uint64_t{message.from} << 32 | message.to);
  mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9;
  return mixed ^ mixed >> 29;
}

void make_block(std::uint64_t word, PatternBlock& block) {
  for (std::size_t i = 0; i < kBlockWords; ++i) block[i] = word + i * kStep;
}

std::uint64_t differing(const std::byte* a, const std::byte* b, std::size_t count) {
  if (std::memcmp(a, b, count) == 0) return 0;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += a[i] != b[i] ? 1 : 0;
  return wrong;
}

template <class Visit>
void for_each_block(const MessageName& message, std::size_t size, const Visit& visit) {
  PatternBlock block;
  std::uint64_t word = first_word(message);
  for (std::size_t at = 0; at < size; at += sizeof block) {
    make_block(word, block);
    visit(at, reinterpret_cast<const std::byte*>(block.data()), std::min(sizeof block, size - at));
    word += kBlockWords * kStep;
  }
}

}  // namespace

void fill_pattern(const MessageName& message, std::span<std::byte> out) {
  for_each_block(message, out.size(), [&](std::size_t at, const std::byte* block, std::size_t count) {
    std::memcpy(out.data() + at, block, count);
  });
}

std::uint64_t count_wrong(const MessageName& message, ByteView bytes) {
  std::uint64_t wrong = 0;
  for_each_block(message, bytes.size(), [&](std::size_t at, const std::byte* block, std::size_t count) {
    wrong += differing(bytes.data() + at, block, count);
  });
  return wrong;
}

}  // namespace r2ccl::apps
