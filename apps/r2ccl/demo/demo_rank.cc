#include "apps/r2ccl/demo/demo_rank.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/job.h"
#include "apps/r2ccl/demo/demo_report.h"
#include "apps/r2ccl/demo/demo_tap.h"
#include "apps/r2ccl/perf/perf_data.h"
#include "lab/net_namespace.h"
#include "process/world.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kReportEvery = 25ms;
constexpr Duration kStopMax = 20s;

template <class T>
T or_gone(Result<T> result) {
  if (!result) throw Gone(result.error().what);
  return std::move(*result);
}
void or_gone(const Status& status) {
  if (!status) throw Gone(status.error().what);
}

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
  DemoRank(const DemoPlan& plan, std::uint32_t rank, const Settings& settings, LineChannel& parent)
      : plan_(plan), rank_(rank), parent_(parent), world_(make_world(settings)) {
    const std::size_t elements = plan.bytes / sizeof(float);
    for (Round& round : rounds_) round.memory.resize(elements + 1);
    join(settings);
    comm_->inspect([&](const Engine& engine, Telemetry& telemetry) {
      tap_ = std::make_unique<DemoTap>(engine.self().process, engine.roster(), plan.nics);
      telemetry.set_listener(tap_.get());
    });
  }
  ~DemoRank() {
    comm_->inspect([](const Engine&, Telemetry& telemetry) { telemetry.set_listener(nullptr); });
  }
  DemoRank(const DemoRank&) = delete;
  DemoRank& operator=(const DemoRank&) = delete;

  // The next AllReduce is under way while the last one is checked, so the NICs never wait for the checking.
  void run() {
    parent_.send(json_text(Json{{"ready", true}}));
    const Instant start = await_go();
    tap_->start(start);
    stop_by_ = start + plan_.length + kStopMax;
    bool last = false;
    begin(rounds_[0]);
    for (std::size_t i = 0; !last; ++i) {
      Round& next = rounds_[(i + 1) % rounds_.size()];
      begin(next);
      last = finish(rounds_[i % rounds_.size()]);
      if (last) finish(next);
    }
    next_report_ = {};
    report();
    parent_.send(json_text(to_json(totals_)));
    or_gone(comm_->finalize());
  }

 private:
  // Rank 0 makes the id, the parent passes it to the others.
  void join(const Settings& settings) {
    UniqueId id;
    if (rank_ == 0) {
      id = or_gone(world_->make_id());
      parent_.send(json_text(Json{{"id", id.to_hex()}}));
    } else {
      id = or_gone(UniqueId::from_hex(await("id").get<std::string>()));
    }
    CommConfig config;
    config.mode = settings.mode;
    config.algorithm = settings.algorithm;
    comm_ = or_gone(world_->join(id, rank_, plan_.servers, config));
    or_gone(comm_->wait_joined());
  }

  Json await(const char* key) {
    const std::optional<std::string> line = parent_.receive(steady_now() + kJoinMax);
    const Json object = line ? parse_json(*line) : Json();
    if (!object.is_object() || !object.contains(key)) throw Gone(fmt::format("the demo's {} did not come", key));
    return object[key];
  }
  Instant await_go() { return Instant(Duration(await("go").get<std::int64_t>())); }

  void begin(Round& round) {
    round.number = begun_++;
    round.data.draw(round.number);
    round.data.fill(round.elements(), rank_);
    round.vote() = stopping_ ? 1 : 0;
    round.ticket = or_gone(comm_->submit({{.input = round.memory.data(),
                                           .output = round.memory.data(),
                                           .count = round.memory.size(),
                                           .type = DataType::kFloat32}}));
  }

  // True when somebody voted for the end.
  bool finish(Round& round) {
    while (!comm_->wait_for(round.ticket, kReportEvery)) {
      listen_to_parent();
      report();
    }
    or_gone(round.ticket->result);
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
    const PlanInUse plan = comm_->plan_in_use();
    parent_.send(json_text(to_json(DemoRound{round.number, now, wrong, plan.algorithm, plan.health_version})));
    listen_to_parent();
    report();
    return votes > 0;
  }

  void listen_to_parent() {
    if (parent_.receive(steady_now())) stopping_ = true;  // it says nothing else
    if (parent_.closed()) throw Gone("the parent is gone");
    if (steady_now() > stop_by_) throw Gone("the last AllReduce did not end in time");
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
  std::unique_ptr<World> world_;
  std::shared_ptr<Comm> comm_;  // goes first: it uses the memory of the rounds
};

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

void run_demo_rank(const DemoPlan& plan, std::uint32_t rank, Instant start, const Settings& settings,
                   LineChannel& parent) {
  Settings mine = settings;
  mine.server = rank;
  mine.fabric = "routed";
  mine.fault.clear();
  mine.nics.clear();
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic)
    mine.nics.push_back(plan.in_lab ? lab::nic_name(nic) : to_text(demo_address(rank, nic)));
  if (plan.in_lab) {
    or_gone(lab::move_into(or_gone(lab::open_namespace(lab::server_namespace(lab_plan(plan), rank)))));
  } else {
    mine.fault = loopback_faults(plan, rank, start);
  }
  DemoRank(plan, rank, mine, parent).run();
}

}  // namespace r2ccl::apps
