// Any environment and any address: parsed or refused with a sentence, never a crash.

#include <vector>

#include "base/address.h"
#include "base/units.h"
#include "env/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace r2ccl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> environment;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    environment.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  (void)Settings::parse(environment);
  (void)Address::parse(text);
  (void)parse_duration(text);
  (void)parse_bytes(text);
  (void)parse_rate(text);
  return 0;
}
