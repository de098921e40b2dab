// Any bytes or text may be handed in as a unique id; what is accepted must survive packing again.

#include <cstdlib>
#include <string_view>

#include "control/unique_id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace r2ccl;
  const ByteView bytes = std::as_bytes(std::span(data, size));
  if (const auto id = UniqueId::unpack(bytes)) {
    const auto again = id->pack();
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto id = UniqueId::from_hex(text)) {
    if (UniqueId::from_hex(id->to_hex())->secret != id->secret) std::abort();
  }
  return 0;
}
