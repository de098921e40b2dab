// What another rank may say besides data: notices that anybody of the job can send, and letters of the agreement in
// any order. The agreement must hold whatever comes: maps in force are whole, and it answers what it can read.
//
// Input: letters, each one byte (rank), a length u16 (little-endian) and that many bytes.

#include <cstdlib>

#include "comm/agreement/agreement.h"
#include "comm/call_notice.h"

namespace {

using namespace r2ccl;

constexpr std::uint32_t kRanks = 3;

void parse_as_notice(ByteView bytes) {
  const auto notice = parse_call_notice(bytes);
  if (!notice) return;
  const auto again = parse_call_notice(encode(*notice));
  if (!again || again->text != notice->text || again->number != notice->number) std::abort();
}

void feed(Agreement& agreement, ByteView bytes) {
  Reader in(bytes);
  Instant now{};
  std::uint64_t number = 0;
  while (in.left() > 0) {
    const auto from = in.get<std::uint8_t>();
    const ByteView letter = in.take_sized();
    if (!in.ok()) return;
    agreement.on_message(from % (kRanks + 1), letter);
    agreement.step(now += 1ms);
    (void)agreement.take_out();
    if (agreement.may_start(number + 1)) agreement.started(++number);
    if (agreement.map().nic.size() != kRanks * 2) std::abort();
    for (const Permille nic : agreement.map().nic) {
      if (nic > kWhole) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = std::as_bytes(std::span(data, size));
  parse_as_notice(bytes);
  const Placement placement{.servers = kRanks,
                            .gpus = 1,
                            .nics = 2,
                            .sharing = std::vector<std::uint32_t>(kRanks, 1),
                            .nic_rate = std::vector<double>(kRanks * 2, 1e9)};
  for (const std::uint32_t rank : {0U, 1U}) {
    Agreement agreement(rank, kRanks, placement);
    feed(agreement, bytes);
  }
  return 0;
}
