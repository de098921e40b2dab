#include "comm/server/gathering.h"

#include <utility>

namespace r2ccl {

Gathering::Gathering(const std::vector<ProcessInfo>& members, std::uint32_t rank, bool share, std::uint64_t nonce)
    : rank_(rank),
      size_(static_cast<std::uint32_t>(members.size())),
      share_(share),
      neighbours_(members, rank),
      missing_(size_ - 1) {
  if (share_) neighbours_.offer(nonce);
  if (rank_ != 0) {
    out_.push_back({0, letter(Letter::kHere, [&](Writer& out) { neighbours_.put_offer(out); })});
  } else if (missing_ == 0) {
    over_ = true;
  }
}

template <class Put>
Bytes Gathering::letter(Letter kind, Put&& put) {
  Bytes bytes{static_cast<std::byte>(kind)};
  Writer out(bytes);
  put(out);
  return bytes;
}

void Gathering::post_all(const Bytes& bytes) {
  for (std::uint32_t to = 1; to < size_; ++to) out_.push_back({to, bytes});
}

std::vector<Gathering::Out> Gathering::take_out() {
  return std::exchange(out_, {});
}

bool Gathering::on_letter(std::uint32_t from, Letter kind, ByteView content) {
  Reader in(content);
  const bool to_root = kind == Letter::kHere || kind == Letter::kMapped;
  if (over_ || to_root != (rank_ == 0) || (to_root && missing_ == 0)) return false;
  switch (kind) {
    case Letter::kHere:
      if (!neighbours_.take_offer(from, in)) return false;
      if (--missing_ == 0) all_here();
      return true;
    case Letter::kGo:
      on_go(content);
      return true;
    case Letter::kMapped:
      neighbours_.take_mapped(from, in);
      if (--missing_ == 0) all_mapped();
      return in.done();
    case Letter::kStart:
      on_start(content);
      return true;
    default:
      return false;
  }
}

void Gathering::all_here() {
  post_all(letter(Letter::kGo, [&](Writer& out) { neighbours_.put_offers(out); }));
  over_ = !neighbours_.any();
  missing_ = over_ ? 0 : size_ - 1;
}

void Gathering::all_mapped() {
  const Bytes start = letter(Letter::kStart, [&](Writer& out) { neighbours_.put_verdicts(out); });
  post_all(start);
  on_start(ByteView(start).subspan(1));
}

void Gathering::on_go(ByteView content) {
  over_ = !neighbours_.any();
  if (over_) return;
  Reader in(content);
  if (share_) {
    if (const Status mapped = neighbours_.map(in); !mapped) why_not_ = mapped.error().what;
  }
  out_.push_back({0, letter(Letter::kMapped, [&](Writer& out) { neighbours_.put_mapped(out); })});
}

void Gathering::on_start(ByteView content) {
  Reader in(content);
  neighbours_.settle(in);
  over_ = true;
}

}  // namespace r2ccl
