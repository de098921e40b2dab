#pragma once
// Little-endian reading and writing of wire structures, with bounds checked once: the Reader remembers that it
// ran short and gives zeros from then on, so a parser reads everything and asks ok() at the end.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/assert.h"

namespace r2ccl {

static_assert(std::endian::native == std::endian::little, "wire helpers assume a little-endian host");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}

  template <class T>
    requires std::is_integral_v<T>
  void put(T value) {
    const auto at = out_.size();
    out_.resize(at + sizeof value);
    std::memcpy(out_.data() + at, &value, sizeof value);
  }
  void put(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  // A byte string of at most 65535 bytes, length first.
  void put_sized(ByteView bytes) {
    R2CCL_ASSERT(bytes.size() <= 0xffff, "a sized byte string holds at most 65535 bytes");
    put(static_cast<std::uint16_t>(bytes.size()));
    put(bytes);
  }
  std::size_t size() const { return out_.size(); }

 private:
  Bytes& out_;
};

class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}

  template <class T>
    requires std::is_integral_v<T>
  T get() {
    T value{};
    const ByteView raw = take(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  ByteView take(std::size_t count) {
    if (count > in_.size()) {
      short_ = true;
      in_ = {};
      return {};
    }
    const ByteView head = in_.first(count);
    in_ = in_.subspan(count);
    return head;
  }
  ByteView take_sized() { return take(get<std::uint16_t>()); }
  std::size_t left() const { return in_.size(); }
  bool ok() const { return !short_; }
  bool done() const { return !short_ && in_.empty(); }  // Everything read, nothing left over.

 private:
  ByteView in_;
  bool short_ = false;
};

}  // namespace r2ccl
