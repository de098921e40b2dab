#include <map>
#include <utility>

#include "schedule/text/parse_step.h"
#include "schedule/text/parse_words.h"
#include "schedule/text/text.h"
#include "schedule/text/text_words.h"

namespace r2ccl {
namespace {

bool is_name(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, is_name_char);
}

class Parser final {
 public:
  Result<Schedule> run(std::string_view text);

 private:
  // A wait for a lane that may stand further down.
  struct NamedWait {
    std::size_t line;
    std::size_t lane;  // that has the wait
    std::size_t step;
    std::size_t wait;
    std::string_view name;
  };
  enum class Place : std::uint8_t { kStart, kFrame, kRanks };

  Status line(std::string_view text);
  Status frame_line(std::string_view word, Words rest);
  Status header(std::string_view word, Words rest);
  Status pieces(Words rest);
  Status close_pieces(bool equal, std::string_view whole);
  Status span(Words rest);
  Status shares(Words rest);
  Status share(Words rest);
  Status nics(Words rest);
  Status rank(Words rest);
  Status lane(Words rest);
  Status step(std::string_view word, Words rest);
  Status place_in_loop(Lane& lane, bool once);
  Status resolve_names();
  Status end();

  PlanHeader& header() { return schedule_.header; }

  Schedule schedule_;
  Place place_ = Place::kStart;
  std::size_t line_ = 0;
  std::size_t steps_ = 0;
  std::size_t next_pair_ = 0;      // of servers, u * servers + v: share lines rise
  std::uint32_t next_server_ = 0;  // of nics lines
  std::size_t nic_rails_ = 0;
  bool loop_given_ = false;       // the open lane has inner_begin or inner_end
  bool loop_begun_ = false;       // the open lane has a step inside the inner loop
  std::vector<NamedWait> named_;  // of the open rank
};

Result<Schedule> Parser::run(std::string_view text) {
  Status status;
  while (status && !text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size());
    ++line_;
    status = line(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  if (status) status = end();
  if (!status) return misuse(fmt::format("line {}: {}", std::max<std::size_t>(line_, 1), status.error().what));
  return std::move(schedule_);
}

Status Parser::line(std::string_view text) {
  if (text.size() > kScheduleLineBytesMax) {
    return misuse(fmt::format("a line has at most {} bytes, not {}", kScheduleLineBytesMax, text.size()));
  }
  Words words(text.substr(0, text.find('#')));
  const std::string_view word = words.next();
  if (word.empty()) return {};
  if (place_ == Place::kStart) return header(word, words);
  if (word == "rank") return rank(words);
  if (place_ == Place::kFrame) return frame_line(word, words);
  if (word == "lane") return lane(words);
  return step(word, words);
}

Status Parser::frame_line(std::string_view word, Words rest) {
  if (word == "pieces") return pieces(rest);
  if (header().layout.bounds.empty()) return misuse(fmt::format("the pieces come before {}", quoted(word)));
  if (word == "span") return span(rest);
  if (word == "shares") return shares(rest);
  if (word == "share") return share(rest);
  if (word == "nics") return nics(rest);
  return misuse(fmt::format("{} is neither span, shares, share, nics nor rank", quoted(word)));
}

Status Parser::header(std::string_view word, Words rest) {
  int kind = 0;
  while (kind <= static_cast<int>(Collective::kAllToAll) && to_text(static_cast<Collective>(kind)) != word) ++kind;
  if (kind > static_cast<int>(Collective::kAllToAll))
    return misuse(fmt::format("{} is not a collective", quoted(word)));
  PlanHeader& f = header();
  f.collective = static_cast<Collective>(kind);
  f.ranks = 0;
  for (word = rest.next(); !word.empty(); word = rest.next()) {
    const auto [key, value] = field_of(word);
    Status status;
    if (key == "ranks") {
      status = read_number(key, value, 1u, kScheduleRanksMax, f.ranks);
    } else if (key == "per_server") {
      status = read_number(key, value, 1u, kScheduleRanksMax, f.ranks_per_server);
    } else if (key == "root") {
      status = read_number(key, value, 0u, kScheduleRanksMax - 1, f.root);
    } else if (key == "slots") {
      status = read_number(key, value, 0u, UINT32_MAX, f.slots);
    } else if (key == "scratch") {
      status = read_number(key, value, 0u, UINT32_MAX, f.scratch_slots);
    } else if (is_name(word) && f.algorithm.empty()) {
      f.algorithm = word;
    } else {
      status =
          misuse(fmt::format("{} is neither a name nor ranks=, per_server=, root=, slots= or scratch=", quoted(word)));
    }
    if (!status) return status;
  }
  place_ = Place::kFrame;
  if (f.ranks == 0) return misuse("the first line needs ranks=");
  if (f.ranks % f.ranks_per_server != 0) {
    return misuse(fmt::format("{} ranks are not whole servers of {}", f.ranks, f.ranks_per_server));
  }
  if (f.root >= f.ranks) return misuse(fmt::format("root {} is not one of the {} ranks", f.root, f.ranks));
  return {};
}

Status Parser::pieces(Words rest) {
  Layout& layout = header().layout;
  if (!layout.bounds.empty()) return misuse("the pieces are given twice");
  layout.bounds.push_back(0);
  bool equal = false;
  std::string_view whole;
  for (std::string_view word = rest.next(); !word.empty(); word = rest.next()) {
    const bool open = !equal && whole.empty();
    Status status;
    if (word == "equal" && open) {
      equal = true;
    } else if (word == "/" && open) {
      whole = rest.next();
    } else if (field_of(word).key == "segments") {
      status = read_number("segments", field_of(word).value, 1u, kScheduleSegmentsMax, layout.segments);
    } else if (word == "inside") {
      layout.order = Layout::Order::kSegmentsInside;
    } else if (!open) {
      status = misuse(fmt::format("{} is neither segments= nor inside", quoted(word)));
    } else if (layout.pieces() == kSchedulePiecesMax) {
      status = misuse(fmt::format("there are more than {} pieces", kSchedulePiecesMax));
    } else {
      std::uint64_t share = 0;
      status = read_number("a piece", word, std::uint64_t{0}, UINT64_MAX - layout.bounds.back(), share);
      layout.bounds.push_back(layout.bounds.back() + share);
    }
    if (!status) return status;
  }
  return close_pieces(equal, whole);
}

Status Parser::close_pieces(bool equal, std::string_view whole) {
  Layout& layout = header().layout;
  if (equal) {
    const std::uint64_t count = layout.bounds.back();
    if (layout.pieces() != 1 || count == 0 || count > kSchedulePiecesMax) {
      return misuse(fmt::format("equal pieces need their number, from 1 to {}", kSchedulePiecesMax));
    }
    layout.bounds = Layout::equal(static_cast<std::uint32_t>(count)).bounds;
    return {};
  }
  if (whole.empty()) return misuse("pieces end in 'equal', or in '/' and their sum");
  if (whole_number<std::uint64_t>(whole) != layout.bounds.back()) {
    return misuse(fmt::format("the pieces add up to {}, not to {}", layout.bounds.back(), quoted(whole)));
  }
  if (layout.bounds.back() == 0) return misuse("at least one piece must not be empty");
  return {};
}

Status Parser::span(Words rest) {
  Layout& layout = header().layout;
  const std::uint32_t number = layout.span_count();
  if (layout.spans.size() == kSchedulePiecesMax)
    return misuse(fmt::format("there are more than {} spans", kSchedulePiecesMax));
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  if (Status status = read_number("the next span", rest.next(), number, number, first); !status) return status;
  if (Status status = expect(rest, "="); !status) return status;
  if (Status status = read_range("a span", rest.next(), layout.pieces() - 1, first, last); !status) return status;
  layout.spans.push_back({first, last - first + 1});
  return expect_end(rest);
}

Status Parser::shares(Words rest) {
  RailShares& table = header().shares;
  if (!table.empty()) return misuse("the shares are given twice");
  for (std::string_view word = rest.next(); !word.empty(); word = rest.next()) {
    const auto [key, value] = field_of(word);
    Status status;
    if (key == "servers") {
      status = read_number(key, value, 1u, kScheduleRanksMax, table.servers);
    } else if (key == "rails") {
      status = read_number(key, value, 1u, kScheduleRailsMax, table.rails);
    } else {
      status = misuse(fmt::format("{} is neither servers= nor rails=", quoted(word)));
    }
    if (!status) return status;
  }
  if (table.servers == 0 || table.rails == 0) return misuse("shares need servers= and rails=");
  const std::uint64_t entries = std::uint64_t{table.servers} * table.servers * table.rails;
  if (entries > kScheduleSharesMax) {
    return misuse(fmt::format("servers x servers x rails is at most {}, not {}", kScheduleSharesMax, entries));
  }
  table.share.resize(entries);
  return {};
}

// Lines rise by (u, v), so that all of them together write each entry once.
Status Parser::share(Words rest) {
  RailShares& table = header().shares;
  if (table.empty()) return misuse("a line 'shares servers= rails=' comes before the first share");
  std::uint32_t u = 0;
  std::uint32_t v = 0;
  std::uint32_t last = 0;
  if (Status status = read_number("a server", rest.next(), 0u, table.servers - 1, u); !status) return status;
  if (Status status = read_range("a server", rest.next(), table.servers - 1, v, last); !status) return status;
  if (v < u || std::size_t{u} * table.servers + v < next_pair_) {
    return misuse(fmt::format("pairs of servers rise, each with the smaller first; {} {} does not", u, v));
  }
  next_pair_ = std::size_t{u} * table.servers + last + 1;
  if (Status status = expect(rest, "="); !status) return status;
  std::vector<std::uint16_t> values(table.rails);
  for (std::uint16_t& value : values) {
    const auto max = static_cast<std::uint16_t>(kShareUnit);
    if (Status status = read_number("the share of a rail", rest.next(), std::uint16_t{0}, max, value); !status)
      return status;
  }
  for (std::size_t w = v; w <= last; ++w) {
    std::ranges::copy(values, table.share.begin() + (u * std::size_t{table.servers} + w) * table.rails);
    std::ranges::copy(values, table.share.begin() + (w * table.servers + u) * table.rails);
  }
  return expect_end(rest);
}

Status Parser::nics(Words rest) {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t servers = header().ranks / header().ranks_per_server;
  if (Status status = read_range("a server", rest.next(), servers - 1, first, last); !status) return status;
  if (first != next_server_) return misuse(fmt::format("the NICs of server {} come next", next_server_));
  if (Status status = expect(rest, "="); !status) return status;
  std::vector<std::uint8_t> row;
  for (std::string_view word = rest.next(); !word.empty(); word = rest.next()) {
    if (row.size() == kScheduleRailsMax) return misuse(fmt::format("there are more than {} rails", kScheduleRailsMax));
    const std::uint8_t max = UINT8_MAX;
    if (Status status = read_number("a NIC", word, std::uint8_t{0}, max, row.emplace_back()); !status) return status;
  }
  if (row.empty() || (nic_rails_ != 0 && row.size() != nic_rails_)) {
    return misuse(
        fmt::format("every server names a NIC for each rail; here are {}, before were {}", row.size(), nic_rails_));
  }
  nic_rails_ = row.size();
  for (; next_server_ <= last; ++next_server_) {
    header().nic_of_rail.insert(header().nic_of_rail.end(), row.begin(), row.end());
  }
  return {};
}

Status Parser::rank(Words rest) {
  if (header().layout.bounds.empty()) return misuse("the pieces come before the first rank");
  if (next_server_ != 0 && next_server_ != header().ranks / header().ranks_per_server) {
    return misuse(fmt::format("the NICs of server {} are missing", next_server_));
  }
  if (Status status = resolve_names(); !status) return status;
  place_ = Place::kRanks;
  const auto next = static_cast<std::uint32_t>(schedule_.lanes.size());
  if (next == header().ranks) return misuse(fmt::format("there are only {} ranks", next));
  std::uint32_t number = 0;
  if (Status status = read_number("the next rank", rest.next(), next, next, number); !status) return status;
  schedule_.lanes.emplace_back();
  return expect_end(rest);
}

Status Parser::lane(Words rest) {
  Lane& lane = schedule_.lanes.back().emplace_back();
  loop_given_ = false;
  loop_begun_ = false;
  bool first = true;
  for (std::string_view word = rest.next(); !word.empty(); word = rest.next()) {
    const auto [key, value] = field_of(word);
    const bool may_be_name = std::exchange(first, false);
    Status status;
    if (key == "outer") {
      status = read_number(key, value, 0u, UINT32_MAX, lane.outer);
    } else if (key == "inner") {
      status = read_number(key, value, 0u, UINT32_MAX, lane.inner);
    } else if (key == "rail") {
      status = read_number(key, value, 0, static_cast<std::int32_t>(kScheduleRailsMax) - 1, lane.rail);
    } else if (key == "inner_begin" || key == "inner_end") {
      loop_given_ = true;
      status = read_number(key, value, 0u, UINT32_MAX, key == "inner_begin" ? lane.inner_begin : lane.inner_end);
    } else if (may_be_name && is_name(word)) {
      lane.name = word;
    } else {
      status = misuse(
          fmt::format("{} is neither a name nor outer=, inner=, rail=, inner_begin= or inner_end=", quoted(word)));
    }
    if (!status) return status;
  }
  return {};
}

Status Parser::step(std::string_view word, Words rest) {
  std::vector<Lane>& lanes = schedule_.lanes.back();
  if (lanes.empty()) return misuse(fmt::format("{} stands before the first lane of its rank", quoted(word)));
  Result<ParsedStep> parsed = parse_step(word, rest);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  if (++steps_ > kScheduleStepsMax) return misuse(fmt::format("there are more than {} steps", kScheduleStepsMax));
  Lane& lane = lanes.back();
  for (const auto& [wait, name] : parsed->named)
    named_.push_back({line_, lanes.size() - 1, lane.steps.size(), wait, name});
  Status placed = place_in_loop(lane, parsed->once);
  lane.steps.push_back(std::move(parsed->step));
  return placed;
}

// Where the next step stands. Steps marked `once` come before the inner loop until one is inside, and behind it from
// then on.
Status Parser::place_in_loop(Lane& lane, bool once) {
  const auto number = static_cast<std::uint32_t>(lane.steps.size());
  if (loop_given_) {
    if (once != (number >= lane.inner_begin && number < lane.inner_end)) return {};
    return misuse(fmt::format("step {} is {} the inner loop by its mark, not by inner_begin and inner_end", number,
                              once ? "outside" : "inside"));
  }
  if (once && !loop_begun_) {
    lane.inner_begin = number + 1;
  } else if (once && lane.inner_end == UINT32_MAX) {
    lane.inner_end = number;
  } else if (!once && lane.inner_end != UINT32_MAX) {
    return misuse("a step inside the inner loop follows one that is marked once behind it");
  }
  loop_begun_ = loop_begun_ || !once;
  return {};
}

Status Parser::resolve_names() {
  if (named_.empty()) return {};
  constexpr std::size_t kSeveral = SIZE_MAX;
  std::vector<Lane>& lanes = schedule_.lanes.back();
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto [at, fresh] = numbers.try_emplace(lanes[i].name, i);
    if (!fresh) at->second = kSeveral;
  }
  for (const NamedWait& named : named_) {
    const auto at = numbers.find(named.name);
    if (at == numbers.end() || at->second == kSeveral) {
      line_ = named.line;
      return misuse(fmt::format("{} lane of rank {} is named {}", at == numbers.end() ? "no" : "more than one",
                                schedule_.lanes.size() - 1, quoted(named.name)));
    }
    lanes[named.lane].steps[named.step].waits[named.wait].lane = static_cast<std::uint32_t>(at->second);
  }
  named_.clear();
  return {};
}

Status Parser::end() {
  if (place_ == Place::kStart) return misuse("there is no schedule in the text");
  if (Status status = resolve_names(); !status) return status;
  if (schedule_.lanes.size() == header().ranks) return {};
  return misuse(fmt::format("the text ends after {} of {} ranks", schedule_.lanes.size(), header().ranks));
}

}  // namespace

Result<Schedule> parse_schedule(std::string_view text) {
  return Parser().run(text);
}

}  // namespace r2ccl
