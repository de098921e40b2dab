#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace r2ccl {
namespace {

// Bit-reflected: bit 31 is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

using Slices = std::array<std::array<std::uint32_t, 256>, 8>;

// kSlices[k][b]: the register after byte b and k zero bytes.
constexpr Slices kSlices = [] {
  Slices slices{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    slices[0][b] = crc;
  }
  for (std::size_t k = 1; k < slices.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      slices[k][b] = slices[k - 1][b] >> 8 ^ slices[0][slices[k - 1][b] & 0xff];
    }
  }
  return slices;
}();

template <class Word>
Word word_at(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

constexpr std::uint32_t power_of_x(std::size_t exponent) {
  std::uint32_t power = 1u << 31;   // x^0
  std::uint32_t square = 1u << 30;  // x^1
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

// Advances a register over a fixed number of zero bytes, a table for each of its four bytes.
class Shift {
 public:
  explicit constexpr Shift(std::size_t zero_bytes) {
    const std::uint32_t power = power_of_x(8 * zero_bytes);
    for (std::uint32_t b = 0; b < 256; ++b) {
      for (std::size_t k = 0; k < 4; ++k) table_[k][b] = multiply(b << (8 * k), power);
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return table_[0][crc & 0xff] ^ table_[1][crc >> 8 & 0xff] ^ table_[2][crc >> 16 & 0xff] ^ table_[3][crc >> 24];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_{};
};

// The instruction takes 3 cycles and a new one may start each cycle, so three neighbouring stretches are summed side by
// side and joined afterwards. Long stretches make the joins cheap, short ones serve what is left.
constexpr std::size_t kLong = 4096;
constexpr std::size_t kShort = 256;
constexpr Shift kLongShift(kLong);
constexpr Shift kShortShift(kShort);

template <std::size_t kStretch>
[[gnu::target("sse4.2")]] std::uint32_t sum_triples(std::uint32_t crc, ByteView& bytes, const Shift& shift) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size() / (3 * kStretch) * (3 * kStretch);
  for (; at != end; at += 3 * kStretch) {
    std::uint64_t a = crc;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      a = _mm_crc32_u64(a, word_at<std::uint64_t>(at + i));
      b = _mm_crc32_u64(b, word_at<std::uint64_t>(at + kStretch + i));
      c = _mm_crc32_u64(c, word_at<std::uint64_t>(at + 2 * kStretch + i));
    }
    crc = shift(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = shift(crc) ^ static_cast<std::uint32_t>(c);
  }
  bytes = bytes.subspan(static_cast<std::size_t>(end - bytes.data()));
  return crc;
}

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(std::uint32_t crc, ByteView bytes) {
  crc = ~crc;
  if (bytes.size() >= 3 * kLong) crc = sum_triples<kLong>(crc, bytes, kLongShift);
  if (bytes.size() >= 3 * kShort) crc = sum_triples<kShort>(crc, bytes, kShortShift);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  std::uint64_t wide = crc;
  for (; end - at >= 8; at += 8) wide = _mm_crc32_u64(wide, word_at<std::uint64_t>(at));
  crc = static_cast<std::uint32_t>(wide);
  if (end - at >= 4) {
    crc = _mm_crc32_u32(crc, word_at<std::uint32_t>(at));
    at += 4;
  }
  for (; at != end; ++at) crc = _mm_crc32_u8(crc, static_cast<std::uint8_t>(*at));
  return ~crc;
}

// With wide carry-less products, 256 bytes at a time are folded into the next 256: their value is multiplied by x^2048
// modulo the polynomial, each half of 16 bytes on its own. The product of two reflected halves comes out one bit low,
// hence the 1.
constexpr std::size_t kFold = 256;
constexpr std::uint64_t kFoldFirst = std::uint64_t{power_of_x(8 * kFold + 64 - 1)} << 32;
constexpr std::uint64_t kFoldSecond = std::uint64_t{power_of_x(8 * kFold - 1)} << 32;
constexpr std::size_t kFoldLeast = 4 * kFold;  // for less, setting it up costs more than it saves

[[gnu::target("avx512f,vpclmulqdq")]] __m512i fold(__m512i sum, __m512i next, __m512i constants) {
  const __m512i first = _mm512_clmulepi64_epi128(sum, constants, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(sum, constants, 0x11);
  return _mm512_ternarylogic_epi64(first, second, next, 0x96);  // all three xored
}

[[gnu::target("avx512f,vpclmulqdq,sse4.2")]] std::uint32_t crc32c_avx512(std::uint32_t crc, ByteView bytes) {
  if (bytes.size() < kFoldLeast) return crc32c_sse42(crc, bytes);
  const std::byte* at = bytes.data();
  const auto load = [&](std::size_t i) __attribute__((target("avx512f"))) { return _mm512_loadu_si512(at + 64 * i); };
  const __m512i constants = _mm512_broadcast_i32x4(
      _mm_set_epi64x(static_cast<std::int64_t>(kFoldSecond), static_cast<std::int64_t>(kFoldFirst)));
  __m512i a = _mm512_xor_si512(load(0), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  __m512i b = load(1);
  __m512i c = load(2);
  __m512i d = load(3);
  const std::byte* const end = at + bytes.size() / kFold * kFold;
  for (at += kFold; at != end; at += kFold) {
    a = fold(a, load(0), constants);
    b = fold(b, load(1), constants);
    c = fold(c, load(2), constants);
    d = fold(d, load(3), constants);
  }
  alignas(64) std::array<std::byte, kFold> left;
  _mm512_store_si512(left.data(), a);
  _mm512_store_si512(left.data() + 64, b);
  _mm512_store_si512(left.data() + 128, c);
  _mm512_store_si512(left.data() + 192, d);
  // What is left has the same remainder as everything that was folded, so its sum from an empty register goes on.
  crc = crc32c_sse42(~std::uint32_t{0}, left);
  return crc32c_sse42(crc, bytes.subspan(static_cast<std::size_t>(end - bytes.data())));
}

#endif

using Function = std::uint32_t (*)(std::uint32_t, ByteView);

Function fastest() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("sse4.2")) return crc32c_portable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  return wide ? crc32c_avx512 : crc32c_sse42;
#else
  return crc32c_portable;
#endif
}

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, ByteView bytes) {
  static const Function kFunction = fastest();
  return kFunction(crc, bytes);
}

std::uint32_t crc32c_portable(std::uint32_t crc, ByteView bytes) {
  crc = ~crc;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint64_t word = word_at<std::uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kSlices[7 - k][word >> (8 * k) & 0xff];
  }
  for (const std::byte b : bytes) crc = crc >> 8 ^ kSlices[0][(crc ^ static_cast<std::uint32_t>(b)) & 0xff];
  return ~crc;
}

}  // namespace r2ccl
