// One loop runs over blocks of bytes, and only the operation knows what a block's bytes mean. So tails, alignment and
// aliasing are right once for all types. Operations treat every element alike, so results can not depend on where a
// range is cut.
//
// No result depends on whether the compiler fuses a multiplication with an addition: only the conversions of float16
// and fp8 have both, and there the products are exact in float32.
//
// We use only Highway's headers. Its own choice of an instruction set is in a shared library, and a library that is
// loaded into other programs had better not need one. Our choice is the table at the end.

#include "device/cpu/kernels.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "device/cpu/scalar.h"

#ifndef __x86_64__
// Only on x86-64 do we know how to ask the processor. Elsewhere we use what the compiler may assume.
#define HWY_COMPILE_ONLY_STATIC
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels.cc"
#include <hwy/foreach_target.h>
// Highway wants this include after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace r2ccl::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
using Block = hn::Vec<Tag<std::uint8_t>>;

template <class T>
HWY_INLINE hn::Vec<Tag<T>> as(Block block) {
  return hn::BitCast(Tag<T>(), block);
}
template <class V>
HWY_INLINE Block block_of(V v) {
  return hn::BitCast(Tag<std::uint8_t>(), v);
}

constexpr std::size_t kWidest = 8;       // bytes of an element
constexpr std::size_t kManyBlocks = 16;  // in so many, a few more instructions do not show

// Each block is read before it is written, so destination may be first or second.
template <class Operation>
HWY_NOINLINE void apply(const Ranges& ranges, const Operation operation) {
  const Tag<std::uint8_t> tag;
  const std::size_t block = hn::Lanes(tag);
  const std::size_t second_step = ranges.one_block ? 0 : block;
  auto* destination = reinterpret_cast<std::uint8_t*>(ranges.destination);
  const auto* first = reinterpret_cast<const std::uint8_t*>(ranges.first);
  const auto* second = reinterpret_cast<const std::uint8_t*>(ranges.second);
  std::size_t left = ranges.bytes;
  // Works on less than a block, one vector per word. A vector that is put together in memory would have to wait until
  // that memory is written.
  const auto apply_part = [&](std::size_t bytes) {
    const Tag<std::uint64_t> words;
    std::size_t done = 0;
    for (; done + kWidest <= bytes; done += kWidest) {
      std::uint64_t a = 0, b = 0;
      std::memcpy(&a, first + done, kWidest);
      std::memcpy(&b, second + done, kWidest);
      a = hn::GetLane(as<std::uint64_t>(operation(block_of(hn::Set(words, a)), block_of(hn::Set(words, b)))));
      std::memcpy(destination + done, &a, kWidest);
    }
    if (done == bytes) return;
    HWY_ALIGN std::uint8_t a[HWY_MAX_BYTES] = {};
    HWY_ALIGN std::uint8_t b[HWY_MAX_BYTES] = {};
    std::memcpy(a, first + done, bytes - done);
    std::memcpy(b, second + done, bytes - done);
    hn::Store(operation(hn::Load(tag, a), hn::Load(tag, b)), tag, a);
    std::memcpy(destination + done, a, bytes - done);
  };
  // Works on a part of a block first, so that the stores of all others are aligned and none crosses a cache line. Only
  // if the part ends between two elements of any type.
  const std::size_t lead = (block - reinterpret_cast<std::uintptr_t>(destination) % block) % block;
  if (lead % kWidest == 0 && lead > 0 && left >= kManyBlocks * block) {
    apply_part(lead);
    left -= lead;
    destination += lead;
    first += lead;
    if (!ranges.one_block) second += lead;
  }
  for (; left >= block; left -= block, destination += block, first += block, second += second_step) {
    hn::StoreU(operation(hn::LoadU(tag, first), hn::LoadU(tag, second)), tag, destination);
  }
  if (left > 0) apply_part(left);
}

// ---- Arithmetic on lanes that the processor has: integers, float32, float64.

template <ReduceKind kKind>
struct Arithmetic {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (kKind == ReduceKind::kSum) return hn::Add(a, b);
    if constexpr (kKind == ReduceKind::kProd) return hn::Mul(a, b);
    if constexpr (kKind == ReduceKind::kMax) return hn::Max(a, b);
    if constexpr (kKind == ReduceKind::kMin) return hn::Min(a, b);
  }
};
using Sum = Arithmetic<ReduceKind::kSum>;
using Product = Arithmetic<ReduceKind::kProd>;
using Larger = Arithmetic<ReduceKind::kMax>;
using Smaller = Arithmetic<ReduceKind::kMin>;
// Divides by one number; the second operand is ignored.
template <class T>
struct Over {
  T divisor;
  template <class V>
  HWY_INLINE V operator()(V a, V /*b*/) const {
    return hn::Div(a, hn::Set(hn::DFromV<V>(), divisor));
  }
};

template <class T, class Compute>
struct OnIntegers {
  Compute compute;
  HWY_INLINE Block operator()(Block a, Block b) const { return block_of(compute(as<T>(a), as<T>(b))); }
};

// No instruction multiplies bytes: the even and the odd ones are multiplied in lanes of 16 bits.
struct ByteProduct {
  HWY_INLINE Block operator()(Block a, Block b) const {
    const auto low = hn::Set(Tag<std::uint16_t>(), 0x00ff);
    const auto wide_a = as<std::uint16_t>(a);
    const auto wide_b = as<std::uint16_t>(b);
    const auto even = hn::And(hn::Mul(wide_a, wide_b), low);
    const auto odd = hn::Mul(hn::ShiftRight<8>(wide_a), hn::AndNot(low, wide_b));
    return block_of(hn::Or(even, odd));
  }
};

// Gives every NaN the same bits: all but the sign. Otherwise the processor would choose which operand's payload and
// sign survive.
template <class V>
HWY_INLINE V with_one_nan(V v) {
  const hn::DFromV<V> tag;
  const hn::RebindToUnsigned<decltype(tag)> bits;
  const auto nan = hn::BitCast(tag, hn::ShiftRight<1>(hn::Set(bits, ~hn::TFromD<decltype(bits)>{0})));
  return hn::IfThenElse(hn::Eq(v, v), v, nan);
}

template <class T, class Compute>
struct OnFloats {
  Compute compute;
  HWY_INLINE Block operator()(Block a, Block b) const { return block_of(with_one_nan(compute(as<T>(a), as<T>(b)))); }
};

// ---- Max and min of floats of any width, on their bits. With the magnitude inverted where the sign is set, floats are
// ordered as integers, -0 below +0. `kInfinity` is the largest magnitude that is no NaN.

template <class T, T kInfinity, class Pick>
struct OnOrder {
  HWY_INLINE Block operator()(Block a, Block b) const {
    const Tag<T> tag;
    const auto magnitude = hn::Set(tag, hwy::LimitsMax<T>());
    const auto x = as<T>(a);
    const auto y = as<T>(b);
    const auto picked = ordered(Pick()(ordered(x), ordered(y)));
    const auto largest = hn::Max(hn::And(x, magnitude), hn::And(y, magnitude));
    return block_of(hn::IfThenElse(hn::Gt(largest, hn::Set(tag, kInfinity)), magnitude, picked));
  }
  // Its own inverse.
  template <class V>
  static HWY_INLINE V ordered(V v) {
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(hn::DFromV<V>(), hwy::LimitsMax<T>())));
  }
};

// ---- Narrow floats: taken apart into lanes of 32 bits by shifts alone, which spares moves across lanes.

using U32 = hn::Vec<Tag<std::uint32_t>>;
using F32 = hn::Vec<Tag<float>>;
constexpr std::uint32_t kFloatSign = 0x80000000;
constexpr std::uint32_t kFloatInfinity = 0x7f800000;

HWY_INLINE U32 all(std::uint32_t value) {
  return hn::Set(Tag<std::uint32_t>(), value);
}
HWY_INLINE F32 as_float(U32 bits) {
  return hn::BitCast(Tag<float>(), bits);
}
// For values below 2^31, because instruction sets compare signed lanes.
HWY_INLINE U32 if_less(U32 a, U32 b, U32 yes, U32 no) {
  const Tag<std::int32_t> tag;
  const auto less = hn::Lt(hn::BitCast(tag, a), hn::BitCast(tag, b));
  return hn::IfThenElse(hn::RebindMask(Tag<std::uint32_t>(), less), yes, no);
}

// kSpecial: first code that is not finite. kHighest: what overflow becomes, infinity or, where conversions
// saturate, the largest number.
template <int kBits, int kMantissa, int kBias, std::uint32_t kSpecial, std::uint32_t kHighest>
struct Format {
  static constexpr int kWidth = kBits;
  static constexpr int kDropped = 23 - kMantissa;
  static constexpr std::uint32_t kSign = 1u << (kBits - 1);
  static constexpr std::uint32_t kNan = kSign - 1;
  static constexpr std::uint32_t kRebias = 127 - kBias;
  // 2^(1 - kBias - kMantissa), the smallest number; and the float whose last place has that value.
  static constexpr std::uint32_t kSmallest = (kRebias + 1 - kMantissa) << 23;
  static constexpr std::uint32_t kAligner = kSmallest + (23u << 23);

  // The lane's low bits to float32; the others must be zero.
  static HWY_INLINE F32 decode(U32 bits) {
    const U32 code = hn::And(bits, all(kNan));
    const U32 normal = hn::Add(hn::ShiftLeft<kDropped>(code), all(kRebias << 23));
    const F32 units = hn::ConvertTo(Tag<float>(), hn::BitCast(Tag<std::int32_t>(), code));
    const U32 subnormal = hn::BitCast(Tag<std::uint32_t>(), hn::Mul(units, as_float(all(kSmallest))));
    const U32 finite = if_less(code, all(1u << kMantissa), subnormal, normal);
    const U32 value = if_less(code, all(kSpecial), finite, hn::Or(normal, all(kFloatInfinity)));
    return as_float(hn::Or(value, hn::ShiftLeft<32 - kBits>(hn::And(bits, all(kSign)))));
  }
  // To nearest, ties to even.
  static HWY_INLINE U32 encode(F32 v) {
    const U32 bits = hn::BitCast(Tag<std::uint32_t>(), v);
    const U32 magnitude = hn::And(bits, all(~kFloatSign));
    const U32 odd = hn::And(hn::ShiftRight<kDropped>(magnitude), all(1));
    const U32 rounded = hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, odd), all((1u << (kDropped - 1)) - 1)));
    const U32 normal = hn::Sub(rounded, all(kRebias << kMantissa));
    const U32 finite = if_less(normal, all(kHighest), normal, all(kHighest));
    // The addition leaves the number in units of the smallest one at the low end, rounded by the processor.
    const F32 aligned = hn::Add(as_float(magnitude), as_float(all(kAligner)));
    const U32 subnormal = hn::Sub(hn::BitCast(Tag<std::uint32_t>(), aligned), all(kAligner));
    const U32 code = if_less(magnitude, all((kRebias + 1) << 23), subnormal, finite);
    const U32 sign = hn::ShiftRight<32 - kBits>(hn::And(bits, all(kFloatSign)));
    return if_less(all(kFloatInfinity), magnitude, all(kNan), hn::Or(code, sign));
  }
};
using Half = Format<16, 10, 15, 0x7c00, 0x7c00>;
using E4m3 = Format<8, 3, 7, 0x7f, 0x7e>;
using E5m2 = Format<8, 2, 15, 0x7c, 0x7b>;

template <class Layout, class Compute>
struct OnNarrow {
  Compute compute;
  HWY_INLINE Block operator()(Block a, Block b) const {
    return block_of(from<0>(as<std::uint32_t>(a), as<std::uint32_t>(b)));
  }
  // Elements kShift / kWidth and up of every lane.
  template <int kShift>
  HWY_INLINE U32 from(U32 a, U32 b) const {
    const U32 mask = all((1u << Layout::kWidth) - 1);
    const F32 x = Layout::decode(hn::And(hn::ShiftRight<kShift>(a), mask));
    const F32 y = Layout::decode(hn::And(hn::ShiftRight<kShift>(b), mask));
    const U32 here = hn::ShiftLeft<kShift>(Layout::encode(compute(x, y)));
    if constexpr (kShift + Layout::kWidth == 32) {
      return here;
    } else {
      return hn::Or(here, from<kShift + Layout::kWidth>(a, b));
    }
  }
};

// bfloat16 is the upper half of a float32.
template <class Compute>
struct OnBfloat16 {
  Compute compute;
  HWY_INLINE Block operator()(Block a, Block b) const {
    const U32 upper = all(0xffff0000);
    const U32 x = as<std::uint32_t>(a);
    const U32 y = as<std::uint32_t>(b);
    const U32 even = rounded(compute(as_float(hn::ShiftLeft<16>(x)), as_float(hn::ShiftLeft<16>(y))));
    const U32 odd = rounded(compute(as_float(hn::And(x, upper)), as_float(hn::And(y, upper))));
    return block_of(hn::Or(hn::ShiftRight<16>(even), hn::And(odd, upper)));
  }
  // The result is the upper half.
  static HWY_INLINE U32 rounded(F32 v) {
    const U32 bits = hn::BitCast(Tag<std::uint32_t>(), v);
    const U32 odd = hn::And(hn::ShiftRight<16>(bits), all(1));
    const U32 number = hn::Add(hn::Add(bits, odd), all(0x7fff));
    return hn::BitCast(Tag<std::uint32_t>(), hn::IfThenElse(hn::Eq(v, v), as_float(number), as_float(all(0x7fff0000))));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
// The processor converts, rounding to nearest even. Our NaN of float32 becomes our NaN of float16.
template <class Compute>
struct OnHalf {
  Compute compute;
  HWY_INLINE Block operator()(Block a, Block b) const {
    const Tag<hwy::float16_t> whole;
    const hn::Half<decltype(whole)> half;
    const auto x = hn::BitCast(whole, a);
    const auto y = hn::BitCast(whole, b);
    const auto low = computed(hn::LowerHalf(half, x), hn::LowerHalf(half, y));
    const auto high = computed(hn::UpperHalf(half, x), hn::UpperHalf(half, y));
    return block_of(hn::Combine(whole, high, low));
  }
  template <class V>
  HWY_INLINE V computed(V a, V b) const {
    const Tag<float> wide;
    return hn::DemoteTo(hn::DFromV<V>(), with_one_nan(compute(hn::PromoteTo(wide, a), hn::PromoteTo(wide, b))));
  }
};
#else
template <class Compute>
using OnHalf = OnNarrow<Half, Compute>;
#endif

// ---- Which operation a type and a kind mean.

template <class T>
void reduce_integers(const Ranges& ranges, ReduceKind kind) {
  using Times = std::conditional_t<sizeof(T) == 1, ByteProduct, OnIntegers<T, Product>>;
  if (kind == ReduceKind::kSum) return apply(ranges, OnIntegers<T, Sum>{});
  if (kind == ReduceKind::kProd) return apply(ranges, Times{});
  if (kind == ReduceKind::kMax) return apply(ranges, OnIntegers<T, Larger>{});
  if (kind == ReduceKind::kMin) return apply(ranges, OnIntegers<T, Smaller>{});
}

template <class T, T kInfinity, template <class> class On>
void reduce_floats(const Ranges& ranges, ReduceKind kind) {
  if (kind == ReduceKind::kSum) return apply(ranges, On<Sum>{});
  if (kind == ReduceKind::kProd) return apply(ranges, On<Product>{});
  if (kind == ReduceKind::kMax) return apply(ranges, OnOrder<T, kInfinity, Larger>{});
  if (kind == ReduceKind::kMin) return apply(ranges, OnOrder<T, kInfinity, Smaller>{});
}

template <class Compute>
using OnFloat32 = OnFloats<float, Compute>;
template <class Compute>
using OnFloat64 = OnFloats<double, Compute>;
template <class Compute>
using OnE4m3 = OnNarrow<E4m3, Compute>;
template <class Compute>
using OnE5m2 = OnNarrow<E5m2, Compute>;

void reduce(const Ranges& ranges, DataType type, ReduceKind kind) {
  if (type == DataType::kInt8) return reduce_integers<std::int8_t>(ranges, kind);
  if (type == DataType::kUint8) return reduce_integers<std::uint8_t>(ranges, kind);
  if (type == DataType::kInt32) return reduce_integers<std::int32_t>(ranges, kind);
  if (type == DataType::kUint32) return reduce_integers<std::uint32_t>(ranges, kind);
  if (type == DataType::kInt64) return reduce_integers<std::int64_t>(ranges, kind);
  if (type == DataType::kUint64) return reduce_integers<std::uint64_t>(ranges, kind);
  if (type == DataType::kFloat16) return reduce_floats<std::int16_t, 0x7c00, OnHalf>(ranges, kind);
  if (type == DataType::kFloat32) return reduce_floats<std::int32_t, 0x7f800000, OnFloat32>(ranges, kind);
  if (type == DataType::kFloat64) return reduce_floats<std::int64_t, 0x7ff0000000000000, OnFloat64>(ranges, kind);
  if (type == DataType::kBfloat16) return reduce_floats<std::int16_t, 0x7f80, OnBfloat16>(ranges, kind);
  if (type == DataType::kFloat8e4m3) return reduce_floats<std::int8_t, 0x7e, OnE4m3>(ranges, kind);
  if (type == DataType::kFloat8e5m2) return reduce_floats<std::int8_t, 0x7c, OnE5m2>(ranges, kind);
}

void scale(const Ranges& ranges, DataType type, const std::byte* scalar) {
  std::byte block[HWY_MAX_BYTES];
  for (std::size_t at = 0; at < sizeof block; at += size_of(type)) std::memcpy(block + at, scalar, size_of(type));
  reduce({ranges.destination, ranges.first, block, ranges.bytes, true}, type, ReduceKind::kProd);
}

void divide(const Ranges& ranges, DataType type, std::uint64_t divisor) {
  const Over<float> narrow{static_cast<float>(divisor)};
  if (type == DataType::kFloat16) return apply(ranges, OnHalf<Over<float>>{narrow});
  if (type == DataType::kFloat32) return apply(ranges, OnFloat32<Over<float>>{narrow});
  if (type == DataType::kFloat64) return apply(ranges, OnFloat64<Over<double>>{{static_cast<double>(divisor)}});
  if (type == DataType::kBfloat16) return apply(ranges, OnBfloat16<Over<float>>{narrow});
  if (type == DataType::kFloat8e4m3) return apply(ranges, OnE4m3<Over<float>>{narrow});
  if (type == DataType::kFloat8e5m2) return apply(ranges, OnE5m2<Over<float>>{narrow});
}

#else
// A processor without vectors that Highway knows, older than SSSE3 where it is an x86.
void reduce(const Ranges& ranges, DataType type, ReduceKind kind) {
  const std::size_t count = ranges.bytes / size_of(type);
  ScalarDevice().reduce(ranges.destination, ranges.first, ranges.second, count, type, kind);
}
void scale(const Ranges& ranges, DataType type, const std::byte* scalar) {
  ScalarDevice().scale(ranges.destination, ranges.first, ranges.bytes / size_of(type), type, scalar);
}
void divide(const Ranges& ranges, DataType type, std::uint64_t divisor) {
  ScalarDevice().divide(ranges.destination, ranges.bytes / size_of(type), type, divisor);
}
#endif

}  // namespace
}  // namespace r2ccl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace r2ccl {
namespace {

#ifdef __x86_64__
// The next functions ask processor and operating system for what Highway lets the compiler use in a set
// (HWY_TARGET_STR).
bool has_ssse3() {
  return __builtin_cpu_supports("ssse3");
}
bool has_sse4() {
  return has_ssse3() && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
}
bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

// HWY_CHOOSE_… is null for a set that was not compiled. For FALLBACK it is the least that every such processor has.
#define R2CCL_KERNELS(name, set)                                                      \
  Kernels {                                                                           \
    name, HWY_CHOOSE_##set(reduce), HWY_CHOOSE_##set(scale), HWY_CHOOSE_##set(divide) \
  }

std::vector<Kernels> find_kernels() {
  std::vector<Kernels> found;
#ifdef __x86_64__
  const auto add = [&found](const Kernels& kernels, bool runs_here) {
    if (kernels.reduce != nullptr && runs_here) found.push_back(kernels);
  };
  __builtin_cpu_init();  // somebody may ask before constructors have run
  add(R2CCL_KERNELS("AVX-512", AVX3), has_avx512());
  add(R2CCL_KERNELS("AVX2", AVX2), has_avx2());
  add(R2CCL_KERNELS("SSE4", SSE4), has_sse4());
  add(R2CCL_KERNELS("SSSE3", SSSE3), has_ssse3());
#endif
  found.push_back(R2CCL_KERNELS("any", FALLBACK));
  return found;
}

}  // namespace

std::span<const Kernels> kernels_of_this_processor() {
  static const std::vector<Kernels> found = find_kernels();
  return found;
}

}  // namespace r2ccl
#endif
