#include <fmt/format.h>

#include <iterator>
#include <map>

#include "schedule/text/text.h"
#include "schedule/text/text_words.h"

namespace r2ccl {
namespace {

std::string printable(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (!is_name_char(c)) c = '_';
  }
  return out;
}

class Printer final {
 public:
  explicit Printer(const Schedule& schedule) : schedule_(schedule) {}

  std::string run() {
    header();
    for (std::size_t rank = 0; rank < schedule_.lanes.size(); ++rank) {
      put("rank {}\n", rank);
      lanes(schedule_.lanes[rank]);
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  template <class T>
  void put_unless(T usual, std::string_view key, T value) {
    if (value != usual) put(" {}={}", key, value);
  }

  void header();
  void pieces(const Layout& layout);
  void shares(const RailShares& shares);
  void nics(const PlanHeader& header);
  template <class T>
  void row(std::string_view word, std::size_t first, std::size_t last, const T* values, std::size_t count);

  void lanes(const std::vector<Lane>& lanes);
  void lane(const Lane& lane);
  void step(const Step& step);
  void index(const Index& index);
  void sum(const Index& index);
  void term(std::int32_t factor, char variable, bool& begun);
  void index_field(std::string_view key, const Index& index, bool always);
  void operand(std::string_view key, const Operand& operand);
  void conditions(const Step& step);
  void wait(const Wait& wait);
  void offset(char variable, std::int32_t offset);

  const Schedule& schedule_;
  std::string out_;
  std::vector<std::string> references_;  // of the lanes of this rank, as waits write them
};

void Printer::header() {
  const PlanHeader& f = schedule_.header;
  put("{}", to_text(f.collective));
  if (!f.algorithm.empty()) put(" {}", printable(f.algorithm));
  put(" ranks={}", f.ranks);
  put_unless(1u, "per_server", f.ranks_per_server);
  put_unless(0u, "root", f.root);
  put_unless(2u, "slots", f.slots);
  put_unless(0u, "scratch", f.scratch_slots);
  put("\n");
  pieces(f.layout);
  if (!f.shares.empty()) shares(f.shares);
  if (!f.nic_of_rail.empty()) nics(f);
}

void Printer::pieces(const Layout& layout) {
  if (layout.bounds.empty()) return;
  const std::uint32_t count = layout.pieces();
  bool equal = true;
  for (std::uint32_t i = 0; i <= count; ++i) equal = equal && layout.bounds[i] == i;
  put("pieces");
  if (equal) {
    put(" {} equal", count);
  } else {
    for (std::uint32_t i = 0; i < count; ++i) put(" {}", layout.bounds[i + 1] - layout.bounds[i]);
    put(" / {}", layout.bounds.back());
  }
  put_unless(1u, "segments", layout.segments);
  if (layout.order == Layout::Order::kSegmentsInside) put(" inside");
  put("\n");
  for (std::size_t i = 0; i < layout.spans.size(); ++i) {
    const Span span = layout.spans[i];
    put("span {} = {}", count + i, span.first);
    if (span.count != 1) put("..{}", std::int64_t{span.first} + span.count - 1);
    put("\n");
  }
}

template <class T>
void Printer::row(std::string_view word, std::size_t first, std::size_t last, const T* values, std::size_t count) {
  put("{} {}", word, first);
  if (last != first) put("..{}", last);
  put(" =");
  for (std::size_t i = 0; i < count; ++i) put(" {}", values[i]);
  put("\n");
}

// Neighbours with the same shares are one line; pairs without any are left out.
void Printer::shares(const RailShares& shares) {
  put("shares servers={} rails={}\n", shares.servers, shares.rails);
  for (std::uint32_t u = 0; u < shares.servers; ++u) {
    for (std::uint32_t v = u; v < shares.servers;) {
      const std::uint16_t* values = shares.of(u, v);
      std::uint32_t end = v + 1;
      while (end < shares.servers && std::equal(values, values + shares.rails, shares.of(u, end))) ++end;
      const bool any = std::any_of(values, values + shares.rails, [](std::uint16_t x) { return x != 0; });
      if (any) row(fmt::format("share {}", u), v, end - 1, values, shares.rails);
      v = end;
    }
  }
}

void Printer::nics(const PlanHeader& f) {
  const std::size_t servers = std::max(1u, f.ranks / std::max(1u, f.ranks_per_server));
  const std::size_t rails = std::max<std::size_t>(1, f.nic_of_rail.size() / servers);
  const std::uint8_t* table = f.nic_of_rail.data();
  const std::size_t rows = (f.nic_of_rail.size() + rails - 1) / rails;
  for (std::size_t u = 0; u < rows;) {
    const std::size_t count = std::min(rails, f.nic_of_rail.size() - u * rails);
    std::size_t end = u + 1;
    while ((end + 1) * rails <= f.nic_of_rail.size() &&
           std::equal(table + u * rails, table + (u + 1) * rails, table + end * rails)) {
      ++end;
    }
    row("nics", u, end - 1, table + u * rails, count);
    u = end;
  }
}

void Printer::lanes(const std::vector<Lane>& lanes) {
  references_.clear();
  std::map<std::string, int, std::less<>> uses;
  for (const Lane& l : lanes) {
    references_.push_back(printable(l.name));
    ++uses[references_.back()];
  }
  for (std::size_t i = 0; i < references_.size(); ++i) {
    // is_number("") holds: a lane without a name has only its number.
    if (uses[references_[i]] != 1 || is_number(references_[i])) references_[i] = fmt::format("{}", i);
  }
  for (const Lane& l : lanes) lane(l);
}

// The marks of the steps say where the inner loop is, unless the lane's numbers say the same in another way.
void Printer::lane(const Lane& l) {
  put("  lane");
  if (!l.name.empty()) put(" {}", printable(l.name));
  put_unless(1u, "outer", l.outer);
  put_unless(1u, "inner", l.inner);
  put_unless(kAnyRail, "rail", l.rail);
  const auto inside = [&](std::size_t i) { return i >= l.inner_begin && i < l.inner_end; };
  std::uint32_t begin = 0;
  while (begin < l.steps.size() && !inside(begin)) ++begin;
  std::uint32_t end = begin;
  while (end < l.steps.size() && inside(end)) ++end;
  if (end == l.steps.size()) end = UINT32_MAX;
  if (l.inner_begin != begin || l.inner_end != end) put(" inner_begin={} inner_end={}", l.inner_begin, l.inner_end);
  put("\n");
  for (std::size_t i = 0; i < l.steps.size(); ++i) {
    put("    {}", inside(i) ? "" : "once ");
    step(l.steps[i]);
  }
}

void Printer::step(const Step& s) {
  put("{}", to_text(s.kind));
  index_field("from", s.from, receives(s.kind));
  put_unless(0u, "ch_in", s.channel_in);
  index_field("to", s.to, sends(s.kind));
  put_unless(0u, "ch_out", s.channel_out);
  index_field("span", s.span, true);
  index_field("seg", s.segment, false);
  operand("src", s.source);
  if (s.has_first) put(" first={}", kBufferWords[static_cast<std::size_t>(s.first_source)]);
  operand("dst", s.destination);
  conditions(s);
  if (!s.waits.empty()) put(" wait");
  for (const Wait& w : s.waits) wait(w);
  put("\n");
}

void Printer::index_field(std::string_view key, const Index& value, bool always) {
  if (!always && value == Index{}) return;
  put(" {}=", key);
  index(value);
}

void Printer::index(const Index& x) {
  if (x.modulo == 0 && x.scale == 1 && x.offset == 0) {
    sum(x);
    return;
  }
  put("(");
  sum(x);
  put(")");
  if (x.modulo != 0) put("%{}", x.modulo);
  if (x.scale != 1) put("*{}", x.scale);
  if (x.offset != 0) put("{:+}", x.offset);
}

// 3, 1+i, o-2, -1-i: the constant comes last only where the sum would begin with a sign otherwise.
void Printer::sum(const Index& x) {
  const std::int32_t leading = x.by_outer != 0 ? x.by_outer : x.by_inner;
  const bool last = x.base < 0 && leading > 0;
  bool begun = x.base != 0 && !last;
  if (begun) put("{}", x.base);
  term(x.by_outer, 'o', begun);
  term(x.by_inner, 'i', begun);
  if (last) put("{}", x.base);
  if (!begun) put("0");
}

void Printer::term(std::int32_t factor, char variable, bool& begun) {
  if (factor == 0) return;
  if (factor == 1) {
    put("{}{}", begun ? "+" : "", variable);
  } else if (factor == -1) {
    put("-{}", variable);
  } else {
    put("{}{}{}", begun && factor > 0 ? "+" : "", factor, variable);
  }
  begun = true;
}

void Printer::operand(std::string_view key, const Operand& o) {
  if (o == Operand{}) return;
  put(" {}={}", key, kBufferWords[static_cast<std::size_t>(o.buffer)]);
  if (o.buffer != Buffer::kScratch && o.slot == Index{}) return;
  put("[");
  index(o.slot);
  put("]");
}

void Printer::conditions(const Step& s) {
  if (s.outer_begin == 0 && s.outer_end == UINT32_MAX && s.guards.empty()) return;
  put(" when");
  if (s.outer_begin != 0) put(" o>={}", s.outer_begin);
  if (s.outer_end != UINT32_MAX) put(" o<{}", s.outer_end);
  for (const Guard& guard : s.guards) {
    put(" ");
    index(guard.value);
    put("=={}", guard.equals);
  }
}

void Printer::wait(const Wait& w) {
  put(" {}.{}@", w.lane < references_.size() ? references_[w.lane] : fmt::format("{}", w.lane), w.step);
  offset('o', w.outer_offset);
  if (!w.one_inner) return;
  put(",");
  offset('i', w.inner_offset);
}

void Printer::offset(char variable, std::int32_t offset) {
  put("{}", variable);
  if (offset != 0) put("{:+}", offset);
}

}  // namespace

std::string print(const Schedule& schedule) {
  return Printer(schedule).run();
}

}  // namespace r2ccl
