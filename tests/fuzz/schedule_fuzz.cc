// Any text may be handed in as a schedule; what is accepted survives printing and reading again, and can be
// checked: proven or refused, without a crash and in bounded time.

#include <cstdlib>
#include <string_view>

#include "schedule/check/check.h"
#include "schedule/text/text.h"

namespace r2ccl {
namespace {

// Checking takes time in proportion to what runs, which a few bytes of text can make as long as they like.
bool is_short(const Schedule& schedule) {
  constexpr std::uint64_t kRunsMax = 10'000;
  constexpr std::uint32_t kRanksMax = 16;
  constexpr std::uint32_t kCellsMax = 1'000;
  const Layout& layout = schedule.header.layout;
  if (schedule.header.ranks > kRanksMax || std::uint64_t{layout.pieces()} * layout.segments > kCellsMax) return false;
  std::uint64_t runs = 0;
  for (const auto& lanes : schedule.lanes) {
    for (const Lane& lane : lanes) {
      if (lane.outer > kRunsMax || lane.inner > kRunsMax) return false;
      runs += std::uint64_t{lane.outer} * (1 + lane.inner) * (1 + lane.steps.size());
    }
  }
  return runs <= kRunsMax;
}

}  // namespace
}  // namespace r2ccl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace r2ccl;
  const auto schedule = parse_schedule({reinterpret_cast<const char*>(data), size});
  if (!schedule) {
    if (!schedule.error().what.starts_with("line ")) std::abort();
    return 0;
  }
  if (parse_schedule(print(*schedule)) != *schedule) std::abort();
  if (is_short(*schedule)) {
    if (const auto proof = check(*schedule); !proof && proof.error().what.empty()) std::abort();
  }
  return 0;
}
