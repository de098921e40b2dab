//   state      what happens                                        next
//   kWaiting   retry_at is reached, the connection is begun        kOpening
//   kWaiting   it can not even be begun                            kWaiting (later)
//   kOpening   the link is up: REGISTER                            kUp
//   kOpening   it went down or took too long                       kWaiting (later)
//   kUp        it went down, or nothing was heard for `silence`     kWaiting
//   kUp        REFUSE                                              kWaiting (late), failure() says why
//   any        finish(), or BYE from the root                      kEnded

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "control/control.h"
#include "control/control_wire.h"

namespace r2ccl {
namespace {

constexpr Duration kOpeningPoll = 250ms;  // so that the provider's own limit on opening is noticed

}  // namespace

struct ControlClient::Impl final : FrameSink {
  enum class State : std::uint8_t { kWaiting, kOpening, kUp, kEnded };

  Impl(const ProcessInfo& self_info, const UniqueId& id, KeyId key_name, std::uint32_t expected_count,
       std::vector<NicId> nic_numbers, Provider& link_provider, Log& log_sink, const ControlLimits& limit_values)
      : self(self_info),
        roots(id.root),
        key(key_name),
        expected(expected_count),
        nics(std::move(nic_numbers)),
        provider(link_provider),
        log(log_sink),
        limits(limit_values),
        retry(limit_values.retry_min) {}

  const ProcessInfo self;
  const std::vector<Address> roots;
  const KeyId key;
  const std::uint32_t expected;
  const std::vector<NicId> nics;
  Provider& provider;
  Log& log;
  const ControlLimits limits;

  State state = State::kWaiting;
  std::unique_ptr<Link> link;
  std::size_t attempts = 0;
  Instant retry_at{};  // the beginning of time: at once
  Duration retry;
  Instant opened_at{}, heard_at{}, sent_at{};
  bool heard = false;    // a frame came during this step
  bool refused = false;  // the root said REFUSE on this connection
  bool ended = false;    // the root said BYE
  bool posted = false;   // something waits in the link's queue for its next step
  std::string failure;

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
    heard = true;
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

  // ---- the connection ----
  void post(ControlFrame type, ByteView body) { posted |= post_control(*link, type, body); }

  void connect(Instant now) {
    const NicId nic = nics[attempts % nics.size()];
    const Address& address = roots[root_of(attempts++)];
    const Hello hello{Purpose::kControl, key, self.process, {}, {}};
    auto made = provider.connect(nic, address, hello, now);
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
    if (attempts % std::max(nics.size(), roots.size()) == 0) retry = std::min(retry * 2, limits.retry_max);
  }

  void on_open(Instant now) {
    state = State::kUp;
    heard_at = sent_at = now;
    root = link->peer() == self.process ? ProcessId{} : link->peer();
    root_lost = false;
    if (std::exchange(root_gone, false)) push({ControlEvent::Kind::kBack, root, {}, {}});
    post(ControlFrame::kRegister, encode_register(self, expected));
  }

  void on_lost(Instant now, bool by_other_end) {
    root_lost = by_other_end && root.value != 0;
    if (!refused) retry = limits.retry_min;
    refused = false;
    link->close();
    on_attempt_failed(now);
  }

  void step_opening(Instant now) {
    if (link->state() == LinkState::kUp) return on_open(now);
    const bool down = link->state() == LinkState::kDown;
    if (!down && now < opened_at + limits.silence) return;
    if (down && link->cause() == Cause::kUnproven) {
      failure = fmt::format("The root at {} and this process do not share a secret: {}",
                            to_text(roots[root_of(attempts - 1)]), link->error());
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
    if (link) link->close();
    link.reset();
    state = State::kEnded;
  }

  // Rail by rail at first; each time all NICs had their turn, shifted by one.
  std::size_t root_of(std::size_t attempt) const { return (attempt + attempt / nics.size()) % roots.size(); }

  Turn step(Instant now) {
    Turn turn;
    posted = heard = false;
    if (state == State::kWaiting && now >= retry_at) {
      connect(now);
      turn.moved = true;
    }
    if (link) {
      turn.moved |= link->step(now, *this);
      const State before = state;
      if (state == State::kOpening)
        step_opening(now);
      else
        step_up(now);
      turn.moved |= posted || state != before;
    }
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
        return std::min(sent_at + limits.heartbeat, heard_at + limits.silence);
      case State::kEnded:
        return kNever;
    }
    return kNever;
  }
};

ControlClient::ControlClient(const ProcessInfo& self, const UniqueId& id, KeyId key, std::uint32_t expected,
                             std::vector<NicId> nics, Provider& provider, Log& log, const ControlLimits& limits)
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
