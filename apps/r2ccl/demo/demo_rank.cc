#include "apps/r2ccl/demo/demo_rank.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/job.h"
#include "apps/r2ccl/common/rank_job.h"
#include "apps/r2ccl/demo/demo_report.h"
#include "apps/r2ccl/demo/demo_tap.h"
#include "apps/r2ccl/perf/perf_data.h"
#include "lab/net_namespace.h"
#include "process/world.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kReportEvery = 25ms;
constexpr Duration kStopMax = 20s;

// What a complaint calls it.
constexpr std::string_view kJob = "the demo";

// One AllReduce. The element after the data is a vote: how many ranks were told to stop. All ranks see the same sum, so
// they end after the same AllReduce without any other message.
struct Round {
  std::vector<float> memory;  // in place
  PerfData data;
  std::uint64_t number = 0;
  TicketPtr ticket;

  std::span<std::byte> elements() { return std::as_writable_bytes(std::span(memory).first(memory.size() - 1)); }
  float& vote() { return memory.back(); }
};

class DemoRank final {
 public:
  // Its job is that of all ranks of the demo.
  DemoRank(const DemoPlan& plan, std::uint32_t rank, LineChannel& parent, RankJob job)
      : plan_(plan), rank_(rank), parent_(parent), job_(std::move(job)) {
    const std::size_t elements = plan.bytes / sizeof(float);
    for (Round& round : rounds_) round.memory.resize(elements + 1);
    comm().inspect([&](const Engine& engine, Telemetry& telemetry) {
      tap_ = std::make_unique<DemoTap>(engine.self().process, engine.roster(), plan.nics);
      telemetry.set_listener(tap_.get());
    });
  }
  ~DemoRank() {
    comm().inspect([](const Engine&, Telemetry& telemetry) { telemetry.set_listener(nullptr); });
  }
  DemoRank(const DemoRank&) = delete;
  DemoRank& operator=(const DemoRank&) = delete;

  // The next AllReduce is under way while the last one is checked, so the NICs never wait for the checking.
  Status run() {
    parent_.send(json_text(Json{{"ready", true}}));
    const auto go = await_word(parent_, "go", kJob);
    if (!go) return std::unexpected(go.error());
    const Instant start(Duration(go->get<std::int64_t>()));
    tap_->start(start);
    stop_by_ = start + plan_.length + kStopMax;
    if (const Status over = run_rounds(); !over) return over;
    next_report_ = {};
    report();
    parent_.send(json_text(to_json(totals_)));
    return comm().finalize();
  }

 private:
  Comm& comm() { return *job_.comm; }

  Status run_rounds() {
    if (const Status begun = begin(rounds_[0]); !begun) return begun;
    for (std::size_t i = 0;; ++i) {
      Round& next = rounds_[(i + 1) % rounds_.size()];
      if (const Status begun = begin(next); !begun) return begun;
      const Result<bool> last = finish(rounds_[i % rounds_.size()]);
      if (!last) return std::unexpected(last.error());
      if (!*last) continue;
      const Result<bool> finished = finish(next);
      return finished ? Status{} : std::unexpected(finished.error());
    }
  }

  Status begin(Round& round) {
    round.number = begun_++;
    round.data.draw(round.number);
    round.data.fill(round.elements(), rank_);
    round.vote() = stopping_ ? 1 : 0;
    auto ticket = comm().submit({{.input = round.memory.data(),
                                  .output = round.memory.data(),
                                  .count = round.memory.size(),
                                  .type = DataType::kFloat32}});
    if (!ticket) return std::unexpected(ticket.error());
    round.ticket = std::move(*ticket);
    return {};
  }

  // True when somebody voted for the end.
  Result<bool> finish(Round& round) {
    while (!comm().wait_for(round.ticket, kReportEvery)) {
      if (const Status heard = listen_to_parent(); !heard) return std::unexpected(heard.error());
      report();
    }
    if (!round.ticket->result) return std::unexpected(round.ticket->result.error());
    const Instant now = steady_now();
    const std::span<const std::byte> elements = round.elements();
    const std::uint64_t count = elements.size() / sizeof(float);
    std::uint64_t wrong = round.data.count_wrong(elements, {.reduced = true, .count = count});
    const float votes = round.vote();
    const bool countable = votes >= 0 && votes <= static_cast<float>(plan_.servers) && votes == std::floor(votes);
    if (!countable) ++wrong;
    ++totals_.rounds;
    totals_.checked += count + 1;
    totals_.wrong += wrong;
    const PlanInUse plan = comm().plan_in_use();
    parent_.send(json_text(to_json(DemoRound{round.number, now, wrong, plan.algorithm, plan.health_version})));
    if (const Status heard = listen_to_parent(); !heard) return std::unexpected(heard.error());
    report();
    return votes > 0;
  }

  Status listen_to_parent() {
    if (parent_.receive(steady_now())) stopping_ = true;  // it says nothing else
    if (parent_.closed()) return fail(Fault::kPeerDown, "the parent is gone");
    if (steady_now() > stop_by_) return fail(Fault::kPeerDown, "the last AllReduce did not end in time");
    return {};
  }

  void report() {
    const Instant now = steady_now();
    if (now < next_report_) return;
    next_report_ = now + kReportEvery;
    for (const Json& object : tap_->take()) parent_.send(json_text(object));
    parent_.send(json_text(to_json(DemoTick{now, tap_->sent_bytes()})));
  }

  PerfData data() const { return {DataType::kFloat32, ReduceName::kSum, plan_.servers}; }

  const DemoPlan plan_;
  const std::uint32_t rank_;
  LineChannel& parent_;
  std::array<Round, 2> rounds_{Round{{}, data(), 0, {}}, Round{{}, data(), 0, {}}};
  std::unique_ptr<DemoTap> tap_;
  std::uint64_t begun_ = 0;
  DemoTotals totals_;
  bool stopping_ = false;
  Instant stop_by_{};
  Instant next_report_{};
  RankJob job_;  // goes first: it uses the memory of the rounds
};

// Rank 0 makes the id, the parent passes it to the others.
JobSeat seat_under(LineChannel& parent, std::uint32_t rank, std::uint32_t size) {
  const auto learn_id = [&parent, rank](World& world) {
    return share_id(parent, rank, [&] { return world.make_id(); }, kJob);
  };
  return {.rank = rank, .size = size, .learn_id = learn_id};
}

// A server's interfaces are in a namespace of their own.
Status enter_server(const DemoPlan& plan, std::uint32_t rank) {
  const auto server = lab::open_namespace(lab::server_namespace(lab_plan(plan), rank));
  if (!server) return std::unexpected(server.error());
  return lab::move_into(*server);
}

// Loopback has no speed of its own, and its faults are injected.
std::string loopback_faults(const DemoPlan& plan, std::uint32_t rank, Instant start) {
  std::vector<FaultSpec> faults;
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic) {
    FaultSpec slow;
    slow.server = {rank};
    slow.nic = {static_cast<std::uint8_t>(nic)};
    slow.kind = FaultKind::kSlow;
    slow.rate_bytes_s = plan.nic_rate_bytes_s;
    faults.push_back(slow);
  }
  for (FaultSpec fault : plan.faults) {
    if (fault.server.value != rank) continue;
    const Duration at = std::max(Duration::zero(), start + fault.at.time - steady_now());
    fault.at.time = std::chrono::floor<std::chrono::microseconds>(at);
    faults.push_back(fault);
  }
  return to_text(faults);
}

}  // namespace

Status run_demo_rank(const DemoPlan& plan, std::uint32_t rank, Instant start, const Settings& settings,
                     LineChannel& parent) {
  Settings mine = settings;
  mine.server = rank;
  mine.fabric = "routed";
  mine.fault.clear();
  mine.nics.clear();
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic)
    mine.nics.push_back(plan.in_lab ? lab::nic_name(nic) : to_text(demo_address(rank, nic)));
  if (plan.in_lab) {
    if (const Status entered = enter_server(plan, rank); !entered) return entered;
  } else {
    mine.fault = loopback_faults(plan, rank, start);
  }
  CommConfig config;
  config.mode = mine.mode;
  config.algorithm = mine.algorithm;
  auto job = join_job(seat_under(parent, rank, plan.servers), mine, config);
  if (!job) return std::unexpected(job.error());
  return DemoRank(plan, rank, parent, std::move(*job)).run();
}

}  // namespace r2ccl::apps
