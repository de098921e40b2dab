// Anything at all may arrive on a link that is up: it must deliver only frames whose checksums are right, stay within
// the landing memory, and end in kUp or in kDown with a sentence, however the bytes are cut.
//
// Input: flags, read size, then steps of (count, bytes…). Bit 0 of a count byte asks for a well-formed frame made
// of the bytes that follow instead of the bytes themselves, so that the fuzzer gets past the checksums.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "testing/link_testing.h"
#include "testing/memory_stream.h"
#include "transport/stream/frame.h"
#include "transport/stream/stream_link.h"

namespace r2ccl {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A frame with this body and padding. Its payload and the zeros behind it are whatever follows in the input.
void put_frame(MemoryPipe& pipe, Reader& in) {
  FrameHeader header;
  header.type = in.get<std::uint8_t>();
  header.path = PathId::unpack(in.get<std::uint16_t>());
  header.epoch.value = in.get<std::uint8_t>();
  header.payload_bytes =
      in.get<std::uint16_t>() * (in.get<std::uint8_t>() == 0xff ? 128u : 1u);  // seldom beyond the limit
  const ByteView body = in.take(std::min<std::size_t>(in.get<std::uint8_t>(), in.left()));
  const std::size_t padding = header.epoch.value % kFrameAlignment;
  std::array<std::byte, kHeaderBytes> head{};
  encode_header(header, body, nullptr, padding, head.data());
  pipe.bytes.insert(pipe.bytes.end(), head.begin(), head.end());
  pipe.bytes.insert(pipe.bytes.end(), body.begin(), body.end());
  pipe.bytes.insert(pipe.bytes.end(), padding, std::byte{0});
}

void run(ByteView input) {
  Reader in(input);
  const auto flags = in.get<std::uint8_t>();
  MemoryPair pair;
  const auto pipe = pair.a_to_b;
  pipe->read_bytes_max = std::size_t{1} + in.get<std::uint16_t>();
  StreamLink link(std::move(pair.b), Hello{}, ProcessId{1}, StreamLimits{});
  RecordingSink sink;
  sink.memory = (flags & 1) != 0 ? RecordingSink::Memory::kUnmapped : RecordingSink::Memory::kHost;
  if ((flags & 2) != 0) sink.memory = RecordingSink::Memory::kNone;
  sink.at_frame = [&](Link& l, const RecordingSink::Frame& frame) {
    if (frame.payload == Payload::kPlaced) require(frame.bytes.size() == frame.header.payload_bytes);
    if (frame.header.type == 'D') l.drain_and_close(Instant{}, sink);
    if (frame.header.type == 'C') l.close();
    if (frame.header.type == 'P') static_cast<void>(l.post(control_frame(1, frame.body)));
  };
  sink.at_header = [&](Link& l, const FrameHeader& header) {
    if (header.type == 'H') l.drain_and_close(Instant{}, sink);
  };
  while (in.left() > 0) {
    const auto count = in.get<std::uint8_t>();
    if ((count & 1) != 0) {
      put_frame(*pipe, in);
    } else {
      const ByteView bytes = in.take(std::min<std::size_t>(count / 2, in.left()));
      pipe->bytes.insert(pipe->bytes.end(), bytes.begin(), bytes.end());
    }
    link.step(Instant{}, sink);
    if ((flags & 4) != 0 && count == 9) link.discard_rest();
  }
  if ((flags & 8) != 0) pipe->ended = true;
  while (link.step(Instant{}, sink)) {
  }
  link.drain_and_close(Instant{}, sink);
  require(link.state() == LinkState::kDown && link.cause() != Cause::kNone && !link.error().empty());
}

}  // namespace
}  // namespace r2ccl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  r2ccl::run(std::as_bytes(std::span(data, size)));
  return 0;
}
