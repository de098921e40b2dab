#include "tools/demo_server.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "runtime/threads/process.h"
#include "tools/command.h"
#include "tools/demo_report.h"
#include "tools/demo_tap.h"
#include "tools/job.h"
#include "tools/pattern.h"

namespace r2ccl::tools {
namespace {

constexpr GroupId kGroup{1};
constexpr StreamId kStream{1};
constexpr std::uint64_t kEndTag = 1;  // the stream ends here
constexpr std::size_t kWindow = 4;    // messages under way, each way, with each peer
constexpr std::size_t kMessageBytesMax = 1024 * 1024;
constexpr Duration kReportEvery = 20ms;
constexpr Duration kStopMax = 15s;

// Large and small, and not round: the last chunk of a message is rarely full.
std::size_t message_bytes(std::uint64_t sequence) {
  constexpr std::array<std::size_t, 4> kSizes{kMessageBytesMax, 700'001, kMessageBytesMax - 13, 5'003};
  return kSizes[sequence % kSizes.size()];
}

struct Slot {
  Slot() = default;
  Slot(const Slot&) = delete;  // the region points into it
  Slot& operator=(const Slot&) = delete;

  Bytes memory = Bytes(kMessageBytesMax);
  HostRegion region{memory.data(), memory.size()};
  std::uint64_t sequence = 0;
  bool busy = false;
};

// Both directions with one peer.
struct Flow {
  std::uint32_t rank = 0;
  ProcessId process;
  std::array<Slot, kWindow> out, in;
  std::uint64_t next_out = 0, next_in = 0;
  std::uint64_t sent = 0, received = 0;
  std::size_t ends_sent = 0;  // one for each receive the peer keeps posted
  bool peer_ended = false;

  bool over() const {
    const auto idle = [](const Slot& slot) { return !slot.busy; };
    return ends_sent == kWindow && peer_ended && std::ranges::all_of(out, idle) && std::ranges::all_of(in, idle);
  }
};

class DemoServer final {
 public:
  DemoServer(const DemoPlan& plan, std::uint32_t rank, const Settings& settings, LineChannel& parent)
      : plan_(plan), rank_(rank), parent_(parent), job_(join_job(settings, {rank, plan.servers}, parent)) {
    tap_ = std::make_unique<DemoTap>(job_.roster, rank, plan.nics);
    for (const ProcessInfo& peer : job_.roster) {
      if (peer.rank == rank) continue;
      flows_.push_back(std::make_unique<Flow>());
      flows_.back()->rank = peer.rank;
      flows_.back()->process = peer.process;
    }
    driver().with_engine([&](Engine& engine) {
      job_.process->telemetry().set_listener(tap_.get());
      for (const auto& flow : flows_) engine.session(flow->process).join(kGroup, job_.secret);
    });
  }
  void run() {
    parent_.send(Json{{"ready", true}}.dump());
    begin(await_go());
    while (!over()) {
      post_all();
      for (const Done& done : await_done()) finish_one(done);
      listen_to_parent();
      report();
    }
    next_report_ = {};
    report();
    parent_.send(to_json(totals()).dump());
    job_.process->finish();
  }

 private:
  struct Done {
    Flow* flow;
    Completion completion;
  };

  Driver& driver() { return job_.process->driver(); }

  Instant await_go() {
    const std::optional<std::string> line = parent_.receive(steady_now() + kJoinMax);
    const Json object = line ? Json::parse(*line, nullptr, false) : Json();
    if (!object.is_object() || !object.contains("go")) throw Gone("the demo did not begin");
    return Instant(Duration(object["go"].get<std::int64_t>()));
  }

  // Times of faults count from the common start.
  void begin(Instant start) {
    tap_->start(start);
    stop_by_ = start + plan_.length + kStopMax;
    driver().with_engine([&](Engine&) {
      const Instant now = steady_now();
      for (FaultSpec fault : plan_.faults) {
        if (fault.server.value != rank_) continue;
        fault.at.time = std::max(Duration::zero(), start + fault.at.time - now);
        if (const Status injected = job_.process->faults()->inject(fault, now); !injected)
          throw Gone(injected.error().what);
      }
    });
  }

  bool over() const {
    return std::ranges::all_of(flows_, [](const auto& flow) { return flow->over(); });
  }

  // ---- messages ----

  void post_all() {
    for (const auto& flow : flows_) prepare(*flow);
    driver().with_engine([&](Engine& engine) {
      for (const auto& flow : flows_) post(engine.session(flow->process), *flow);
    });
  }

  // Fills what will be sent, without holding the engine.
  void prepare(Flow& flow) {
    std::uint64_t sequence = flow.next_out;
    for (std::size_t i = 0; i < kWindow && !stopping_; ++i) {
      Slot& slot = flow.out[sequence % kWindow];
      if (slot.busy) break;
      slot.sequence = sequence;
      fill_pattern({rank_, flow.rank, sequence}, std::span(slot.memory).first(message_bytes(sequence)));
      ++sequence;
    }
  }

  void post(Session& session, Flow& flow) {
    while (!flow.in[flow.next_in % kWindow].busy && !flow.peer_ended) {
      Slot& slot = flow.in[flow.next_in % kWindow];
      slot.sequence = flow.next_in++;
      check(session.receive(kGroup, kStream, {&slot.region, 0, slot.memory.size()}, 0, slot.sequence << 1));
      slot.busy = true;
    }
    while (!flow.out[flow.next_out % kWindow].busy && flow.ends_sent < kWindow) {
      Slot& slot = flow.out[flow.next_out % kWindow];
      slot.sequence = flow.next_out++;
      const std::size_t bytes = stopping_ ? 0 : message_bytes(slot.sequence);
      if (stopping_) ++flow.ends_sent;
      check(session.send(kGroup, kStream, {&slot.region, 0, bytes}, stopping_ ? kEndTag : 0, slot.sequence << 1 | 1));
      slot.busy = true;
    }
  }

  template <class T>
  static void check(const Result<T>& result) {
    if (!result) throw Gone(result.error().what);
  }

  std::vector<Done> await_done() {
    std::vector<Done> done;
    const auto harvest = [&](Engine& engine) {
      for (const auto& flow : flows_) {
        for (Completion& completion : engine.session(flow->process).take_completions())
          done.push_back({flow.get(), std::move(completion)});
      }
      return !done.empty();
    };
    driver().wait_until(harvest, steady_now() + kReportEvery);
    return done;
  }

  void finish_one(const Done& done) {
    const Completion& completion = done.completion;
    if (!completion.status)
      throw Gone(fmt::format("stream with server {}: {}", done.flow->rank, completion.status.error().what));
    const bool was_sent = (completion.token & 1) != 0;
    const std::uint64_t sequence = completion.token >> 1;
    Slot& slot = (was_sent ? done.flow->out : done.flow->in)[sequence % kWindow];
    slot.busy = false;
    if (completion.tag == kEndTag) {
      if (!was_sent) done.flow->peer_ended = true;
    } else if (was_sent) {
      ++done.flow->sent;
    } else {
      ++done.flow->received;
      verify(*done.flow, slot, sequence, completion.length);
    }
  }

  void verify(const Flow& flow, const Slot& slot, std::uint64_t sequence, std::size_t length) {
    const std::size_t expected = message_bytes(sequence);
    checked_bytes_ += expected;
    if (length == expected) {
      wrong_bytes_ += count_wrong({flow.rank, rank_, sequence}, ByteView(slot.memory).first(length));
    } else {
      wrong_bytes_ += expected;
    }
  }

  // ---- the parent ----

  void listen_to_parent() {
    if (parent_.receive(steady_now())) stopping_ = true;  // it says nothing else
    if (parent_.closed()) throw Gone("the parent is gone");
    if (steady_now() > stop_by_) throw Gone("the streams did not end in time");
  }

  void report() {
    const Instant now = steady_now();
    if (now < next_report_) return;
    next_report_ = now + kReportEvery;
    for (const Json& object : tap_->take()) parent_.send(object.dump());
    parent_.send(to_json(DemoTick{now, checked_bytes_, tap_->sent_bytes()}).dump());
  }

  DemoTotals totals() const {
    DemoTotals totals{.sent_messages = std::vector<std::uint64_t>(plan_.servers),
                      .received_messages = std::vector<std::uint64_t>(plan_.servers),
                      .checked_bytes = checked_bytes_,
                      .wrong_bytes = wrong_bytes_};
    for (const auto& flow : flows_) {
      totals.sent_messages[flow->rank] = flow->sent;
      totals.received_messages[flow->rank] = flow->received;
    }
    return totals;
  }

  const DemoPlan plan_;
  const std::uint32_t rank_;
  LineChannel& parent_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::unique_ptr<DemoTap> tap_;
  std::uint64_t checked_bytes_ = 0;
  std::uint64_t wrong_bytes_ = 0;
  bool stopping_ = false;
  Instant stop_by_{};
  Instant next_report_{};
  JobEnd job_;  // goes first: it uses the memory of the flows and the tap
};

}  // namespace

void run_demo_server(const DemoPlan& plan, std::uint32_t rank, const Settings& settings, LineChannel& parent) {
  Settings mine = settings;
  mine.server = rank;
  mine.nics.clear();
  std::vector<FaultSpec> shaping;  // loopback has no speed of its own
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic) {
    mine.nics.push_back(to_text(demo_address(rank, nic)));
    FaultSpec slow;
    slow.server = {rank};
    slow.nic = {static_cast<std::uint8_t>(nic)};
    slow.kind = FaultKind::kSlow;
    slow.rate_bytes_s = plan.nic_rate_bytes_s;
    shaping.push_back(slow);
  }
  mine.fault = to_text(shaping);
  DemoServer(plan, rank, mine, parent).run();
}

}  // namespace r2ccl::tools
