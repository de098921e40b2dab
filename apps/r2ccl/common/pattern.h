#pragma once
// Bytes whose every position is known to the receiver: a transfer that lost, repeated or moved anything shows.

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace r2ccl::apps {

struct MessageName {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t sequence = 0;
};

// The bytes depend on the message and on their position in it.
void fill_pattern(const MessageName& message, std::span<std::byte> out);
// How many bytes differ from fill_pattern().
std::uint64_t count_wrong(const MessageName& message, ByteView bytes);

}  // namespace r2ccl::apps
