#include "comm/call_notice.h"

#include <algorithm>
#include <span>

namespace r2ccl {

Bytes encode(const Word& word) {
  Bytes bytes;
  Writer out(bytes);
  out.put(static_cast<std::uint8_t>(word.kind));
  out.put(word.number);
  out.put(word.signature);
  out.put_sized(std::as_bytes(std::span(word.text).first(std::min(word.text.size(), kWordTextMax))));
  return bytes;
}

std::optional<Word> parse_word(ByteView bytes) {
  Reader in(bytes);
  Word word;
  const auto kind = in.get<std::uint8_t>();
  word.kind = static_cast<Word::Kind>(kind);
  word.number = in.get<std::uint64_t>();
  word.signature = in.get<std::uint64_t>();
  for (const std::byte one : in.take_sized()) {
    const char c = static_cast<char>(one);
    word.text += c >= ' ' && c <= '~' ? c : '?';
  }
  const bool known =
      kind == static_cast<std::uint8_t>(Word::Kind::kFailed) || kind == static_cast<std::uint8_t>(Word::Kind::kAsk);
  if (!in.done() || !known || word.text.size() > kWordTextMax) return std::nullopt;
  return word;
}

}  // namespace r2ccl
