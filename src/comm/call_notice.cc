#include "comm/call_notice.h"

#include <algorithm>
#include <span>

namespace r2ccl {

Bytes encode(const CallNotice& notice) {
  Bytes bytes;
  Writer out(bytes);
  out.put(static_cast<std::uint8_t>(notice.kind));
  out.put(notice.number);
  out.put(notice.signature);
  out.put_sized(std::as_bytes(std::span(notice.text).first(std::min(notice.text.size(), kCallNoticeTextMax))));
  return bytes;
}

std::optional<CallNotice> parse_call_notice(ByteView bytes) {
  Reader in(bytes);
  CallNotice notice;
  const auto kind = in.get<std::uint8_t>();
  notice.kind = static_cast<CallNotice::Kind>(kind);
  notice.number = in.get<std::uint64_t>();
  notice.signature = in.get<std::uint64_t>();
  for (const std::byte one : in.take_sized()) {
    const char c = static_cast<char>(one);
    notice.text += c >= ' ' && c <= '~' ? c : '?';
  }
  const bool known = kind == static_cast<std::uint8_t>(CallNotice::Kind::kFailed) ||
                     kind == static_cast<std::uint8_t>(CallNotice::Kind::kAsk);
  if (!in.done() || !known || notice.text.size() > kCallNoticeTextMax) return std::nullopt;
  return notice;
}

}  // namespace r2ccl
