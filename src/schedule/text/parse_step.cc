#include "schedule/text/parse_step.h"

#include <array>
#include <utility>

#include "schedule/text/text_words.h"

namespace r2ccl {
namespace {

// Eats a word from its front. Each function returns false where the word goes on differently.
class Scan final {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool eat(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Digits, or with `sign` also '-' before them.
  template <std::integral T>
  bool number(T& out, bool sign = false) {
    if (rest_.empty() || !(is_digit(rest_[0]) || (sign && rest_[0] == '-'))) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  // "", "+3", "-3"
  bool offset(std::int32_t& out) {
    if (!rest_.starts_with('+')) return rest_.empty() || rest_[0] != '-' || number(out, true);
    return eat('+') && number(out);
  }
  bool sum(Index& out);
  bool index(Index& out);

 private:
  bool term(Index& out, bool negative, unsigned& seen);

  std::string_view rest_;
};

// 3, o, 2i: each of them once in a sum.
bool Scan::term(Index& out, bool negative, unsigned& seen) {
  std::int64_t value = 1;
  const bool digits = !rest_.empty() && is_digit(rest_[0]);
  if (digits && !number(value)) return false;
  if (negative) value = -value;
  if (!std::in_range<std::int32_t>(value)) return false;
  unsigned part = 1;
  std::int32_t* field = &out.base;
  if (eat('o')) {
    part = 2;
    field = &out.by_outer;
  } else if (eat('i')) {
    part = 4;
    field = &out.by_inner;
  } else if (!digits) {
    return false;
  }
  *field = static_cast<std::int32_t>(value);
  return (std::exchange(seen, seen | part) & part) == 0;
}

bool Scan::sum(Index& out) {
  unsigned seen = 0;
  bool negative = eat('-');
  do {
    if (!term(out, negative, seen)) return false;
    negative = eat('-');
  } while (negative || eat('+'));
  return true;
}

bool Scan::index(Index& out) {
  if (!eat('(')) return sum(out);
  if (!sum(out) || !eat(')')) return false;
  if (eat('%') && (!number(out.modulo) || out.modulo == 0)) return false;
  if (eat('*') && !number(out.scale, true)) return false;
  return offset(out.offset);
}

Status read_index(std::string_view word, Index& out) {
  Scan scan(word);
  if (scan.index(out) && scan.done()) return {};
  return misuse(fmt::format("{} is not an index such as 3, o-2 or (1+i)%4*2+1 with numbers of 32 bits", quoted(word)));
}

Status read_buffer(std::string_view word, Buffer& out) {
  for (std::size_t i = 0; i < kBufferWords.size(); ++i) {
    if (word != kBufferWords[i]) continue;
    out = static_cast<Buffer>(i);
    return {};
  }
  return misuse(fmt::format("{} is neither none, input, output nor scratch", quoted(word)));
}

// input, scratch[o]
Status read_operand(std::string_view word, Operand& out) {
  const std::size_t open = word.find('[');
  if (Status status = read_buffer(word.substr(0, open), out.buffer); !status) return status;
  if (open == std::string_view::npos) {
    if (out.buffer == Buffer::kScratch) return misuse("scratch needs its slot, as in scratch[o]");
    return {};
  }
  if (!word.ends_with(']')) return misuse(fmt::format("{} lacks its ]", quoted(word)));
  return read_index(word.substr(open + 1, word.size() - open - 2), out.slot);
}

constexpr std::array<std::string_view, 9> kKeys{"from", "ch_in", "to", "ch_out", "span", "seg", "src", "first", "dst"};

// `given` has a bit for each key.
Status read_field(std::string_view word, Step& step, unsigned& given) {
  const Field field = field_of(word);
  std::size_t key = 0;
  while (key < kKeys.size() && kKeys[key] != field.key) ++key;
  if (key == kKeys.size()) return misuse(fmt::format("{} is not a field of a step", quoted(word)));
  if ((std::exchange(given, given | 1u << key) & 1u << key) != 0) {
    return misuse(fmt::format("{}= is given twice", field.key));
  }
  switch (key) {
    case 0:
      return read_index(field.value, step.from);
    case 1:
      return read_number("ch_in", field.value, 0u, UINT32_MAX, step.channel_in);
    case 2:
      return read_index(field.value, step.to);
    case 3:
      return read_number("ch_out", field.value, 0u, UINT32_MAX, step.channel_out);
    case 4:
      return read_index(field.value, step.span);
    case 5:
      return read_index(field.value, step.segment);
    case 6:
      return read_operand(field.value, step.source);
    case 7:
      step.has_first = true;
      return read_buffer(field.value, step.first_source);
    default:
      return read_operand(field.value, step.destination);
  }
}

Status need(StepKind kind, std::size_t key, unsigned given) {
  if ((given & 1u << key) != 0) return {};
  return misuse(fmt::format("{} needs {}=", to_text(kind), kKeys[key]));
}

// o>=2, o<64, (o)%2==1
Status read_condition(std::string_view word, Step& step) {
  if (word.starts_with("o>=")) return read_number("o>=", word.substr(3), 0u, UINT32_MAX, step.outer_begin);
  if (word.starts_with("o<")) return read_number("o<", word.substr(2), 0u, UINT32_MAX, step.outer_end);
  const std::size_t at = word.find("==");
  if (at == std::string_view::npos) {
    return misuse(fmt::format("{} is not a condition such as o>=2, o<64 or (o)%2==1", quoted(word)));
  }
  Guard& guard = step.guards.emplace_back();
  if (Status status = read_index(word.substr(0, at), guard.value); !status) return status;
  return read_number("what an index equals", word.substr(at + 2), INT64_MIN, INT64_MAX, guard.equals);
}

// rs_in.0@o-2, 3.0@o,i+1. Names contain dots, so the last one divides.
Status read_wait(std::string_view word, ParsedStep& out) {
  const std::string_view target = word.substr(0, word.find('@'));
  const std::size_t dot = target.rfind('.');
  Wait& wait = out.step.waits.emplace_back();
  bool good = target.size() < word.size() && dot != std::string_view::npos && dot > 0;
  if (good) {
    const std::string_view lane = target.substr(0, dot);
    if (!is_number(lane)) out.named.push_back({out.step.waits.size() - 1, lane});
    Scan number(is_number(lane) ? lane : "0");
    Scan step(target.substr(dot + 1));
    Scan when(word.substr(target.size() + 1));
    good = number.number(wait.lane) && step.number(wait.step) && step.done() && when.eat('o') &&
           when.offset(wait.outer_offset);
    wait.one_inner = when.eat(',');
    if (wait.one_inner) good = good && when.eat('i') && when.offset(wait.inner_offset);
    good = good && when.done();
  }
  if (good) return {};
  return misuse(fmt::format("{} is not a wait such as rs_in.0@o-2 or rs_in.0@o,i-1", quoted(word)));
}

Status read_kind(std::string_view word, StepKind& out) {
  for (int i = 0; i <= static_cast<int>(StepKind::kRecvReduceCopySend); ++i) {
    if (to_text(static_cast<StepKind>(i)) != word) continue;
    out = static_cast<StepKind>(i);
    return {};
  }
  return misuse(fmt::format("{} is not a kind of step", quoted(word)));
}

}  // namespace

Result<ParsedStep> parse_step(std::string_view first, Words rest) {
  ParsedStep out;
  out.once = first == "once";
  Status status = read_kind(out.once ? rest.next() : first, out.step.kind);
  enum class Part : std::uint8_t { kFields, kConditions, kWaits } part = Part::kFields;
  unsigned given = 0;
  for (std::string_view word = rest.next(); status && !word.empty(); word = rest.next()) {
    if (word == "when" && part == Part::kFields) {
      part = Part::kConditions;
    } else if (word == "wait" && part != Part::kWaits) {
      part = Part::kWaits;
    } else if (part == Part::kFields) {
      status = read_field(word, out.step, given);
    } else if (part == Part::kConditions) {
      status = read_condition(word, out.step);
    } else {
      status = read_wait(word, out);
    }
  }
  if (status && receives(out.step.kind)) status = need(out.step.kind, 0, given);
  if (status && sends(out.step.kind)) status = need(out.step.kind, 2, given);
  if (status) status = need(out.step.kind, 4, given);
  if (!status) return std::unexpected(std::move(status.error()));
  return out;
}

}  // namespace r2ccl
