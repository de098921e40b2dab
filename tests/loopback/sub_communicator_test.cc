// Communicators that were made from a communicator, as ncclCommSplit and ncclCommShrink make them: their
// collectives survive NIC faults too. tests/loopback/nccl_ranks_test.cc does the same through the C interface.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "env/real/real.h"
#include "tests/loopback/support/conformance.h"
#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr int kOperationsMax = 1000;  // of some milliseconds: many seconds
constexpr int kRepeats = 8;

using Slip = std::array<std::byte, UniqueId::kWireSize>;

void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().what);
}

std::shared_ptr<Comm> join(World& world, const UniqueId& id, std::uint32_t rank, std::uint32_t size) {
  auto comm = world.join(id, rank, size, {}).value();
  must(comm->wait_joined());
  return comm;
}

// Even and odd ranks; the later ranks of the parent come first.
std::shared_ptr<Comm> split(Comm& parent, World& world) {
  constexpr std::uint32_t kHalf = kRanks / 2;
  const std::uint32_t first = kRanks - 2 + parent.rank() % 2;
  Slip mine{};
  if (parent.rank() == first) mine = world.make_id().value().pack();
  std::vector<Slip> all(kRanks);
  must(parent.run({.kind = CallKind::kAllGather,
                   .input = &mine,
                   .output = all.data(),
                   .count = sizeof mine,
                   .type = DataType::kUint8}));
  return join(world, UniqueId::unpack(all[first]).value(), kHalf - 1 - parent.rank() / 2, kHalf);
}

// All but rank 1, for which it is null and which does nothing.
std::shared_ptr<Comm> shrink(Comm& parent, World& world) {
  if (parent.rank() == 1) return nullptr;
  std::optional<UniqueId> mine;
  if (parent.rank() == 0) mine = world.make_id().value();
  must(parent.invite({0, 2, 3}, mine));
  return join(world, parent.invited().value(), parent.rank() == 0 ? 0 : parent.rank() - 1, kRanks - 1);
}

struct Span {
  Instant begin;
  Instant end;
};

// Makes an AllReduce several times, so that most of the time one is running; fails the test unless it is exact. True
// once any rank has had enough.
bool all_reduce(Comm& comm, bool enough, std::vector<Span>& spans) {
  std::vector<std::int32_t> data(500'000);
  std::vector<std::int32_t> sum(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::int32_t>(i * (comm.rank() + 1));
  data[0] = enough ? 1 : 0;
  SteadyClock clock;
  spans.push_back({clock.now(), {}});
  for (int i = 0; i < kRepeats; ++i)
    must(comm.run({.input = data.data(), .output = sum.data(), .count = data.size(), .type = DataType::kInt32}));
  spans.back().end = clock.now();
  const std::size_t factor = comm.size() * (comm.size() + 1) / 2;
  for (std::size_t i = 1; i < sum.size(); ++i) {
    if (sum[i] != static_cast<std::int32_t>(i * factor))
      throw std::runtime_error(fmt::format("element {} is wrong", i));
  }
  return sum[0] > 0;
}

// Hears of faults of its process while it lives.
class FaultTimes final : public EventListener {
 public:
  explicit FaultTimes(Comm& comm) : comm_(comm) {
    comm_.inspect([&](const Engine&, Telemetry& telemetry) { telemetry.set_listener(this); });
  }
  ~FaultTimes() override {
    comm_.inspect([](const Engine&, Telemetry& telemetry) { telemetry.set_listener(nullptr); });
  }
  void on_event(const Event& event) override {
    if (event.kind == EventKind::kFaultInjected) times_.push_back(event.at);
  }
  std::vector<Instant> times() {
    std::vector<Instant> copy;
    comm_.inspect([&](const Engine&, Telemetry&) { copy = times_; });
    return copy;
  }

 private:
  Comm& comm_;
  std::vector<Instant> times_;  // with the engine held
};

std::uint64_t inside_of(const std::vector<Span>& spans, const std::vector<Instant>& faults) {
  std::uint64_t count = 0;
  for (const Instant at : faults) {
    for (const Span& span : spans) count += span.begin < at && at < span.end ? 1 : 0;
  }
  return count;
}

// How many chunks of this rank were sent again over another path.
std::uint64_t repeated_by(Comm& comm) {
  std::uint64_t chunks = 0;
  comm.inspect([&](const Engine&, Telemetry& telemetry) {
    chunks = telemetry.counters.replayed_chunks + telemetry.counters.hedged_chunks;
  });
  return chunks;
}

// Of all ranks together.
struct Found {
  std::mutex mutex;
  std::atomic<bool> repaired = false;              // some chunk went again
  std::uint64_t inside = 0;                        // faults that came while a collective of the sub-communicator ran
  std::map<std::uint32_t, std::uint64_t> version;  // of the last collective, by rank of the parent

  void add(Comm& comm, std::uint32_t rank, const std::vector<Span>& spans, const std::vector<Instant>& faults) {
    const std::lock_guard lock(mutex);
    version[rank] = comm.plan_in_use().health_version;
    inside += inside_of(spans, faults);
  }
};

RanksPlan plan_of() {
  RanksPlan plan;
  plan.ranks = kRanks;
  plan.nics = 3;
  plan.settings = {"NCCL_DEBUG=VERSION"};
  // By operations, not by time, so that they come inside an AllReduce however slow the machine is: use() makes one
  // call of some kind, then eight AllReduces, and again. Whatever is under way on a NIC that falls silent has to go
  // again.
  plan.faults = {"at=op:5 server=2 nic=0 kind=blackhole for=400ms", "at=op:23 server=2 nic=1 kind=down",
                 "at=op:31 server=2 nic=2 kind=reset"};
  // On a busy machine those NICs may have carried nothing at those moments, so faults go on until some hit a
  // collective.
  for (int operation = 59; operation < 9 * kOperationsMax; operation += 45)
    plan.faults.push_back(fmt::format("at=op:{} server=2 nic=2 kind=blackhole for=400ms", operation));
  return plan;
}

// True: the rank that has the NIC sees it down, and the plan takes that into account.
bool is_over(Comm& comm) {
  bool down = false;
  for (const NicView& nic : comm.nics()) down |= nic.id == NicId{1} && nic.state != "up";
  return down && comm.plan_in_use().health_version > 0;
}

// Makes collectives of one sub-communicator until its plan has changed, a fault came inside one of them and something
// was repaired. If the broken NIC is not one of its own, until the others are done. `rank`: in the parent.
void use(Comm& comm, std::uint32_t rank, bool has_the_nic, std::atomic<bool>& others_done, Found& found) {
  FaultTimes faults(comm);
  std::vector<Span> spans;
  bool enough = false;
  for (int i = 0; i < kOperationsMax && !enough; ++i) {
    conform(comm, 7000 + static_cast<std::uint64_t>(i), 5000);
    if (repeated_by(comm) > 0) found.repaired = true;
    const bool mine = rank == 2 && found.repaired && is_over(comm) && inside_of(spans, faults.times()) > 0;
    enough = all_reduce(comm, has_the_nic ? mine : others_done.load(), spans);
  }
  EXPECT_TRUE(enough) << "rank " << rank << " has never seen a new plan";
  others_done = true;
  found.add(comm, rank, spans, faults.times());
  must(comm.finalize());
}

TEST(SubCommunicator, SplitOnesSurviveANicThatIsCutInTheMiddle) {
  Found found;
  std::atomic<bool> done = false;
  run_ranks(plan_of(), [&](Comm& parent, World& world) {
    const auto comm = split(parent, world);
    use(*comm, parent.rank(), parent.rank() % 2 == 0, done, found);
    std::vector<Span> spans;
    all_reduce(parent, false, spans);  // it was not used meanwhile
  });
  EXPECT_GT(found.inside, 0u) << "no fault came while a collective ran";
  EXPECT_TRUE(found.repaired) << "nothing had to be repaired";
  for (const std::uint32_t rank : {0u, 2u}) EXPECT_GT(found.version[rank], 0u) << "rank " << rank;
}

TEST(SubCommunicator, AShrunkOneSurvivesANicThatIsCutInTheMiddle) {
  Found found;
  std::atomic<bool> done = false;
  run_ranks(plan_of(), [&](Comm& parent, World& world) {
    if (const auto comm = shrink(parent, world)) use(*comm, parent.rank(), true, done, found);
  });
  EXPECT_GT(found.inside, 0u) << "no fault came while a collective ran";
  EXPECT_TRUE(found.repaired) << "nothing had to be repaired";
  ASSERT_EQ(found.version.size(), kRanks - 1);
  for (const auto& [rank, version] : found.version) EXPECT_GT(version, 0u) << "rank " << rank;
}

}  // namespace
}  // namespace r2ccl::loopback
