// A World of ranks in one process without a network, so that the C interface can be tested alone.
//
// A collective is done when the last rank has submitted its own; a receive when its message was sent. Sums of float
// only.

#include "process/world.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "bindings/nccl/fake_world.h"
#include "bindings/nccl/process_world.h"
#include "control/unique_id.h"

namespace r2ccl {
namespace {

struct Posted {
  Call call;
  std::shared_ptr<int> left;  // calls of its submit() that are not done
};
struct Rank {
  bool here = false;
  bool finishing = false;
  std::deque<Posted> collectives;
};
struct Job {
  explicit Job(std::uint32_t size) : ranks(size) {}
  std::vector<Rank> ranks;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Posted>> sends;  // from, to
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Posted>> receives;
  std::map<std::vector<std::uint32_t>, UniqueId> invited;  // by who stays, also when broken
  std::string broken;
  bool all_here() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.here; });
  }
};

std::mutex mutex;
std::condition_variable changed;
std::map<std::array<std::byte, 32>, std::shared_ptr<Job>> jobs;
std::map<const void*, std::shared_ptr<int>> open_tickets;
std::vector<std::string> log_of_calls;
std::uint8_t next_id = 1;
std::string nic_state = "up";

std::byte* at(const void* start, std::uint64_t bytes) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(start)) + bytes;
}

void all_reduce(Job& job) {
  const Call& call = job.ranks[0].collectives.front().call;
  std::vector<float> sum(call.count);
  for (const Rank& rank : job.ranks) {
    const Call& its = rank.collectives.front().call;
    float scalar = 1;
    if (its.op.name == ReduceName::kPreMulSum) std::memcpy(&scalar, &its.op.scalar, sizeof(scalar));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scalar * static_cast<const float*>(its.input)[i];
  }
  for (const Rank& rank : job.ranks)
    std::memcpy(rank.collectives.front().call.output, sum.data(), sum.size() * sizeof(float));
}

void all_gather(Job& job) {
  for (std::size_t from = 0; from < job.ranks.size(); ++from) {
    const Call& source = job.ranks[from].collectives.front().call;
    const std::uint64_t bytes = source.count * size_of(source.type);
    for (const Rank& to : job.ranks)
      std::memmove(at(to.collectives.front().call.output, from * bytes), source.input, bytes);
  }
}

bool run_collective(Job& job) {
  for (const Rank& rank : job.ranks) {
    if (rank.collectives.empty()) return false;
  }
  const Call& call = job.ranks[0].collectives.front().call;
  call.kind == CallKind::kAllGather ? all_gather(job) : all_reduce(job);
  log_of_calls.push_back(std::string(to_text(call.kind)) + " " + std::to_string(call.count));
  for (Rank& rank : job.ranks) {
    --*rank.collectives.front().left;
    rank.collectives.pop_front();
  }
  return true;
}

void advance(Job& job) {
  while (run_collective(job)) {
  }
  for (auto& [ends, sends] : job.sends) {
    auto& receives = job.receives[ends];
    while (!sends.empty() && !receives.empty()) {
      const Call& send = sends.front().call;
      std::memcpy(receives.front().call.output, send.input, send.count * size_of(send.type));
      --*sends.front().left;
      --*receives.front().left;
      sends.pop_front();
      receives.pop_front();
    }
  }
  changed.notify_all();
}

class FakeComm final : public Comm {
 public:
  FakeComm(std::shared_ptr<Job> job, std::uint32_t rank) : job_(std::move(job)), rank_(rank) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(job_->ranks.size()); }
  CommState state() override {
    const std::lock_guard lock(mutex);
    if (!job_->broken.empty()) return CommState::kFailed;
    return job_->all_here() ? CommState::kReady : CommState::kJoining;
  }
  Error error() override {
    const std::lock_guard lock(mutex);
    return {Fault::kAborted, job_->broken};
  }
  Status wait_joined() override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return job_->all_here() || !job_->broken.empty(); });
    if (!job_->broken.empty()) return fail(Fault::kAborted, job_->broken);
    return {};
  }
  Result<TicketPtr> submit(std::vector<Call> calls) override {
    const std::lock_guard lock(mutex);
    Job& job = *job_;
    if (!job.broken.empty()) return fail(Fault::kAborted, job.broken);
    auto ticket = std::make_shared<TicketPtr::element_type>();
    const auto left = std::make_shared<int>(static_cast<int>(calls.size()));
    open_tickets[ticket.get()] = left;
    for (const Call& call : calls) {
      const Posted posted{call, left};
      if (call.kind == CallKind::kSend) {
        job.sends[{rank_, call.peer}].push_back(posted);
      } else if (call.kind == CallKind::kRecv) {
        job.receives[{call.peer, rank_}].push_back(posted);
      } else {
        job.ranks[rank_].collectives.push_back(posted);
      }
    }
    advance(job);
    return ticket;
  }
  bool done(const TicketPtr& ticket) override {
    const std::lock_guard lock(mutex);
    return *open_tickets[ticket.get()] == 0;
  }
  Status wait(const TicketPtr& ticket) override {
    std::unique_lock lock(mutex);
    const auto left = open_tickets[ticket.get()];
    changed.wait(lock, [&] { return *left == 0 || !job_->broken.empty(); });
    open_tickets.erase(ticket.get());
    if (*left != 0) return fail(Fault::kAborted, job_->broken);
    return {};
  }
  Status run(const Call& call) override {
    const auto ticket = submit({call});
    return ticket ? wait(*ticket) : std::unexpected(ticket.error());
  }
  PlanInUse plan_in_use() override { return {"fake", 0, 0}; }
  Status finalize() override {
    std::unique_lock lock(mutex);
    Job& job = *job_;
    job.ranks[rank_].finishing = true;
    changed.notify_all();
    changed.wait(lock, [&] {
      return !job.broken.empty() ||
             std::all_of(job.ranks.begin(), job.ranks.end(), [](const Rank& rank) { return rank.finishing; });
    });
    return {};
  }
  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex);
    job_->broken = why;
    changed.notify_all();
  }
  Result<double> estimate(const std::vector<Call>& calls) override { return static_cast<double>(calls.size()) * 1e-6; }
  Status invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id) override {
    const std::lock_guard lock(mutex);
    stay_ = stay;
    if (id) job_->invited[stay] = *id;
    changed.notify_all();
    return {};
  }
  Result<UniqueId> invited() override {
    std::unique_lock lock(mutex);
    auto& invited = job_->invited;
    changed.wait(lock, [&] { return invited.contains(stay_); });
    return invited[stay_];
  }
  void end_invitation() override {}
  void drain(NicId, bool on) override {
    const std::lock_guard lock(mutex);
    nic_state = on ? "drained" : "up";
  }
  std::vector<NicView> nics() override {
    const std::lock_guard lock(mutex);
    return {{NicId{0}, "eth0", nic_state, 1e9}};
  }
  bool wait_for(const TicketPtr& ticket, Duration) override { return done(ticket); }
  void inspect(FunctionRef<void(const Engine&, Telemetry&)>) override {}

 private:
  const std::shared_ptr<Job> job_;
  const std::uint32_t rank_;
  std::vector<std::uint32_t> stay_;  // of the latest invitation
};

class FakeWorld final : public World {
 public:
  explicit FakeWorld(const Settings& settings) : settings_(settings) {}

  Result<UniqueId> make_id() override {
    const std::lock_guard lock(mutex);
    UniqueId id;
    id.secret[0] = std::byte{next_id++};
    id.root = {Address::v4(127, 0, 0, 1, 1)};
    return id;
  }
  Result<UniqueId> fixed_id(bool) override { return fail(Fault::kMisuse, "not in this fake"); }
  Result<std::shared_ptr<Comm>> join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                     const CommConfig&) override {
    const std::lock_guard lock(mutex);
    auto& job = jobs[id.secret];
    if (job == nullptr) job = std::make_shared<Job>(size);
    job->ranks[rank].here = true;
    changed.notify_all();
    return std::make_shared<FakeComm>(job, rank);
  }
  const Settings& settings() const override { return settings_; }

 private:
  const Settings settings_;
};

std::unique_ptr<World> make_fake(const Settings& settings, std::optional<MeetingPlace>) {
  return std::make_unique<FakeWorld>(settings);
}
const bool kStandsIn = (bindings::set_world_maker(make_fake), true);  // before any test

}  // namespace

namespace bindings {
std::vector<std::string> take_fake_log() {
  const std::lock_guard lock(mutex);
  return std::exchange(log_of_calls, {});
}
void set_fake_nic_state(const std::string& state) {
  const std::lock_guard lock(mutex);
  nic_state = state;
}
}  // namespace bindings

}  // namespace r2ccl
