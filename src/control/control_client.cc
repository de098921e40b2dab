//   state      what happens                                        next
//   kWaiting   retry_at is reached, the connection is begun        kOpening
//   kWaiting   the connection can not even be begun                kWaiting (later)
//   kOpening   the link is up: REGISTER                            kUp
//   kOpening   it went down or took too long                       kWaiting (later)
//   kUp        it went down, or nothing was heard for `silence`     kWaiting
//   kUp        REFUSE                                              kWaiting (late), failure() says why
//   kUp        by another way, and a link to the place comes up     kUp, by that one: REGISTER; the former closes later
//   any        finish(), or BYE from the root                      kEnded

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "control/control.h"
#include "control/control_wire.h"

namespace r2ccl {
namespace {

constexpr Duration kOpeningPoll = 250ms;  // looks so often whether the provider has given up on opening

}  // namespace

struct ControlClient::Impl final : FrameSink {
  enum class State : std::uint8_t { kWaiting, kOpening, kUp, kEnded };

  Impl(const ProcessInfo& self_info, const UniqueId& unique_id, KeyId key_name, std::uint32_t expected_count,
       ControlNics control_nics, Provider& link_provider, Log& log_sink, const ControlLimits& limit_values)
      : self(self_info),
        id(unique_id),
        key(key_name),
        expected(expected_count),
        nics(std::move(control_nics)),
        goes_back(!id.place.empty() && std::ranges::find(nics.data, nics.place) == nics.data.end()),
        provider(link_provider),
        log(log_sink),
        limits(limit_values),
        ways(control_ways(id, nics, {}, provider.nics())),
        retry(limit_values.retry_min),
        return_wait(limit_values.return_min) {}

  const ProcessInfo self;
  const UniqueId id;
  const KeyId key;
  const std::uint32_t expected;
  const ControlNics nics;
  const bool goes_back;  // the place has a network of its own
  Provider& provider;
  Log& log;
  const ControlLimits limits;

  State state = State::kWaiting;
  std::unique_ptr<Link> link;
  std::vector<ControlWay> ways;
  std::size_t next_way = 0;
  std::optional<ControlWay> way;  // how `link` goes; nullopt: the root is in this process
  std::size_t attempts = 0;
  Instant retry_at{};  // the first attempt is due at once
  Duration retry;
  Instant opened_at{}, heard_at{}, sent_at{};
  const Link* stepped = nullptr;  // whose frames come in; the Link that on_frame() gets may be one inside this one
  bool heard = false;             // a frame of `link` came during this step
  bool refused = false;           // the root said REFUSE on this connection
  bool ended = false;             // the root said BYE
  bool posted = false;            // something waits in the link's queue for its next step
  std::string failure;

  // Going back to the place.
  std::unique_ptr<Link> trial;  // opens beside `link`
  ControlWay trial_way;
  Instant trial_opened_at{};
  Instant trial_at = kNever;  // when the next one begins
  std::size_t trials = 0;
  Duration return_wait;          // before a trial
  bool left_place = false;       // control had to go elsewhere once
  Instant returned_at{};         // when control last went back to the place
  std::unique_ptr<Link> former;  // until the root has heard of its successor and closed it
  Instant former_until{};

  ProcessId root{};        // 0: never reached, or in this process
  bool root_lost = false;  // its connection ended; if new ones are refused it is gone
  bool root_gone = false;

  std::vector<ProcessInfo> roster;
  std::vector<ProcessInfo> arriving;  // parts of a roster, in order
  std::vector<ControlEvent> events;
  std::uint64_t events_dropped = 0;

  // ---- what comes in ----
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }

  void on_frame(Link&, const FrameHeader& header, ByteView body, Payload) override {
    heard |= stepped == link.get();
    switch (static_cast<ControlFrame>(header.type)) {
      case ControlFrame::kRoster:
        return on_roster(body);
      case ControlFrame::kNotice:
        if (const auto notice = parse_notice(body)) {
          push({ControlEvent::Kind::kNotice, notice->process, notice->kind,
                Bytes(notice->bytes.begin(), notice->bytes.end())});
        }
        return;
      case ControlFrame::kGone:
        if (const auto process = parse_process(body)) push({ControlEvent::Kind::kGone, *process, {}, {}});
        return;
      case ControlFrame::kBack:
        if (const auto process = parse_process(body)) push({ControlEvent::Kind::kBack, *process, {}, {}});
        return;
      case ControlFrame::kRefuse:
        if (const auto sentence = parse_refusal(body)) {
          refused = true;
          failure = *sentence;
        }
        return;
      case ControlFrame::kBye:
        ended = true;
        return;
      case ControlFrame::kReach:
        if (const auto addresses = parse_reach(body); addresses && !addresses->empty()) {
          ways = control_ways(id, nics, *addresses, provider.nics());
          go_on_behind_way();
        }
        return;
      default:
        return;
    }
  }

  void on_roster(ByteView body) {
    auto part = parse_roster_part(body);
    if (!part) return;
    if (part->first == 0) arriving.clear();
    if (part->first != arriving.size()) return;
    std::ranges::move(part->members, std::back_inserter(arriving));
    if (arriving.size() != part->total) return;
    if (roster.empty()) roster = std::move(arriving);
    arriving.clear();
    failure.clear();
  }

  void push(ControlEvent event) {
    if (events.size() >= limits.events_max) {
      ++events_dropped;
      return;
    }
    events.push_back(std::move(event));
  }

  bool step_link(Link& one, Instant now) {
    stepped = &one;
    return one.step(now, *this);
  }

  // ---- the connection ----
  void post(ControlFrame type, ByteView body) { posted |= post_control(*link, type, body); }

  bool is_to_place(const ControlWay& one) const {
    return one.nic == nics.place && std::ranges::find(id.place, one.root) != id.place.end();
  }

  // Sets the way to try next: after the place the way behind it; after any other the place, if there is one.
  void go_on_behind_way() {
    const auto at = way ? std::ranges::find(ways, *way) : ways.end();
    const bool onwards = at != ways.end() && (id.place.empty() || is_to_place(*at));
    next_way = onwards ? static_cast<std::size_t>(at - ways.begin() + 1) % ways.size() : 0;
  }

  std::string text(const ControlWay& one) const {
    const auto nic = std::ranges::find(provider.nics(), one.nic, &Nic::id);
    return fmt::format("from NIC {} to {}", nic == provider.nics().end() ? "?" : nic->name, to_text(one.root));
  }
  void note(const std::string& line) const {
    if (way && log.enabled(LogLevel::kInfo)) log.write(LogLevel::kInfo, line);
  }

  Result<std::unique_ptr<Link>> dial(const ControlWay& one, Instant now) {
    return provider.connect(one.nic, one.root, {Purpose::kControl, key, self.process, {}, {}}, now);
  }

  void connect(Instant now) {
    way = ways[next_way];
    next_way = (next_way + 1) % ways.size();
    ++attempts;
    auto made = dial(*way, now);
    if (!made) return on_attempt_failed(now);
    link = std::move(*made);
    opened_at = now;
    state = State::kOpening;
  }

  void on_attempt_failed(Instant now) {
    link.reset();
    arriving.clear();
    state = State::kWaiting;
    retry_at = now + retry;
    if (attempts % std::max<std::size_t>(nics.data.size() + id.place.size(), id.root.size()) == 0)
      retry = std::min(retry * 2, limits.retry_max);
  }

  void on_open(Instant now) {
    state = State::kUp;
    root = link->peer() == self.process ? ProcessId{} : link->peer();
    root_lost = false;
    if (std::exchange(root_gone, false)) push({ControlEvent::Kind::kBack, root, {}, {}});
    introduce(now);
  }

  // Registers over `link`, which is up.
  void introduce(Instant now) {
    heard_at = sent_at = now;
    post(ControlFrame::kRegister, encode_register(self, expected));
    if (!way) return;
    note(fmt::format("Control goes {}.", text(*way)));
    if (is_to_place(*way) && left_place) returned_at = now;
    trial_at = goes_back && !is_to_place(*way) ? now + return_wait : kNever;
  }

  void on_lost(Instant now, bool by_other_end) {
    if (way) on_way_lost(now);
    root_lost = by_other_end && root.value != 0;
    if (!refused) retry = limits.retry_min;
    refused = false;
    link->close();
    on_attempt_failed(now);
  }

  void on_way_lost(Instant now) {
    note(fmt::format("Control {} is lost: {}", text(*way),
                     link->error().empty() ? "nothing was heard for too long." : link->error()));
    trial.reset();
    trial_at = kNever;
    go_on_behind_way();
    if (!is_to_place(*way)) return;
    const bool again = left_place && now < returned_at + limits.return_max;
    return_wait = again ? std::min(return_wait * 2, limits.return_max) : limits.return_min;
    left_place = true;
  }

  // ---- going back to the place ----
  void step_return(Instant now, Turn& turn) {
    if (!trial && now >= trial_at) {
      trial_way = {nics.place, id.place[trials++ % id.place.size()]};
      trial_at = now + return_wait;
      trial_opened_at = now;
      if (auto made = dial(trial_way, now)) trial = std::move(*made);
      turn.moved = true;
    }
    if (!trial) return;
    turn.moved |= step_link(*trial, now);
    if (trial->state() == LinkState::kUp && trial->peer() == root) return go_back(now);
    if (trial->state() != LinkState::kOpening || now >= trial_opened_at + limits.silence) trial.reset();
  }

  // To the root only the newest connection of a process counts; it closes the older one.
  void go_back(Instant now) {
    drop(former);
    former = std::exchange(link, std::move(trial));
    former_until = now + limits.silence;
    way = trial_way;
    go_on_behind_way();
    introduce(now);
  }

  void step_former(Instant now, Turn& turn) {
    if (!former) return;
    turn.moved |= step_link(*former, now);
    if (former->state() == LinkState::kDown || now >= former_until) drop(former);
  }

  static void drop(std::unique_ptr<Link>& one) {
    if (one) one->close();
    one.reset();
  }

  void step_opening(Instant now) {
    if (link->state() == LinkState::kUp) return on_open(now);
    const bool down = link->state() == LinkState::kDown;
    if (!down && now < opened_at + limits.silence) return;
    if (down && link->cause() == Cause::kUnproven) {
      failure = fmt::format("The root at {} and this process do not share a secret: {}",
                            way ? to_text(way->root) : "this process", link->error());
    }
    if (down && link->cause() == Cause::kRefused && root_lost && !root_gone) {
      root_gone = true;
      push({ControlEvent::Kind::kGone, root, {}, {}});
    }
    on_attempt_failed(now);
  }

  void step_up(Instant now) {
    if (heard) heard_at = now;
    if (ended) return end();
    if (refused) return on_lost(now, false);
    if (link->state() == LinkState::kDown) {
      return on_lost(now, link->cause() == Cause::kClosed || link->cause() == Cause::kReset);
    }
    if (now >= heard_at + limits.silence) return on_lost(now, false);
    if (now >= sent_at + limits.heartbeat) {
      sent_at = now;
      post(ControlFrame::kHeartbeat, {});
    }
  }

  void end() {
    drop(link);
    drop(trial);
    drop(former);
    state = State::kEnded;
  }

  Turn step(Instant now) {
    Turn turn;
    posted = heard = false;
    if (state == State::kWaiting && now >= retry_at) {
      connect(now);
      turn.moved = true;
    }
    if (link) {
      turn.moved |= step_link(*link, now);
      const State before = state;
      if (state == State::kOpening) {
        step_opening(now);
      } else {
        step_up(now);
      }
      if (state == State::kUp) step_return(now, turn);
      turn.moved |= posted || state != before;
    }
    step_former(now, turn);
    turn.next = next_step(now);
    return turn;
  }

  Instant next_step(Instant now) const {
    switch (state) {
      case State::kWaiting:
        return retry_at;
      case State::kOpening:
        return now + kOpeningPoll;
      case State::kUp:
        return std::min({sent_at + limits.heartbeat, heard_at + limits.silence, trial ? now + kOpeningPoll : trial_at,
                         former ? former_until : kNever});
      case State::kEnded:
        return kNever;
    }
    return kNever;
  }
};

std::vector<ControlWay> control_ways(const UniqueId& id, const ControlNics& from, const std::vector<Address>& reach,
                                     std::span<const Nic> nics) {
  std::vector<Address> roots = reach.empty() ? id.root : reach;
  if (std::ranges::find(from.data, from.place) == from.data.end())
    std::erase_if(roots, [&](const Address& root) { return std::ranges::find(id.place, root) != id.place.end(); });
  std::vector<ControlWay> all;
  std::size_t shift = 0;
  do {
    for (const Address& address : id.place) all.push_back({from.place, address});
    for (std::size_t i = 0; i < from.data.size() && !roots.empty(); ++i)
      all.push_back({from.data[i], roots[(i + shift) % roots.size()]});
  } while (++shift < roots.size());
  std::vector<ControlWay> usable = all;
  std::erase_if(usable, [&](const ControlWay& way) {
    const auto nic = std::ranges::find(nics, way.nic, &Nic::id);
    return nic != nics.end() && !nic->address.is_unspecified() && nic->address.is_v4() != way.root.is_v4();
  });
  return usable.empty() ? all : usable;
}

ControlClient::ControlClient(const ProcessInfo& self, const UniqueId& id, KeyId key, std::uint32_t expected,
                             ControlNics nics, Provider& provider, Log& log, const ControlLimits& limits)
    : impl_(std::make_unique<Impl>(self, id, key, expected, std::move(nics), provider, log, limits)) {}
ControlClient::~ControlClient() = default;

void ControlClient::adopt(std::unique_ptr<Link> link) {
  impl_->link = std::move(link);
  impl_->state = Impl::State::kOpening;
}

Turn ControlClient::step(Instant now) {
  return impl_->step(now);
}
const std::vector<ProcessInfo>& ControlClient::roster() const {
  return impl_->roster;
}
bool ControlClient::connected() const {
  return impl_->state == Impl::State::kUp;
}

std::optional<ControlWay> ControlClient::way() const {
  return connected() ? impl_->way : std::nullopt;
}

void ControlClient::send(ProcessId to, NoticeKind kind, ByteView bytes) {
  if (impl_->state != Impl::State::kUp || bytes.size() > kNoticeBytesMax) return;
  impl_->post(ControlFrame::kNotice, encode_notice(to, kind, bytes));
}

std::vector<ControlEvent> ControlClient::take_events() {
  return std::exchange(impl_->events, {});
}

void ControlClient::finish() {
  if (impl_->state == Impl::State::kUp) impl_->post(ControlFrame::kBye, {});
  impl_->end();
}

const std::string& ControlClient::failure() const {
  return impl_->failure;
}

}  // namespace r2ccl
