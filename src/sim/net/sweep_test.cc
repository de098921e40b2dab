// Cuts at every point of a transfer, on a polite and deterministic network, and a second cut at every point of the
// repair. Always complete, exact, and replayed exactly what must be.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

#include "sim/net/replay_ledger.h"
#include "sim/net/scenario.h"
#include "sim/net/wires/sim_connection.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kChunks = 12;
constexpr std::uint32_t kChunkBytes = 1000;
constexpr Duration kUnnoticed = Network::kNeverNotices;

enum class Moment { kBeforePost, kAfterPost, kMidFrame, kAfterPlacement };

struct FirstCut {
  Moment moment{};
  std::uint64_t number = 0;  // chunk; for kMidFrame the position on the path
  std::uint8_t nic = 0;      // kMidFrame: the path; otherwise the one that carries the chunk
  bool sender_notices = true;
};

struct Outcome {
  RunReport report;
  std::uint64_t must_replay = 0, replayed = 0;
  std::uint64_t events_after_cut = 0;
  std::vector<std::uint8_t> nic_of_chunk = std::vector<std::uint8_t>(kChunks + 1);
  std::vector<std::uint64_t> arrived;  // bytes that reached the receiver, by path
};

Scenario polite(std::size_t paths) {
  Scenario scenario;
  scenario.seed = 7;
  scenario.data_nics = paths;
  scenario.network = {.fabric = Fabric::kRails, .rate_bytes_s = 10e6, .delay = 100us, .segment_bytes = 700};
  scenario.scheduling = {.delay_min = 2us, .delay_max = 2us, .step_cost = 1us};
  scenario.session.fabric = Fabric::kRails;
  scenario.session.limits.chunk_bytes = kChunkBytes;
  scenario.session.limits.copy_bytes_max = 100;
  scenario.session.limits.first_rate_bytes_s = 10e6;
  scenario.messages.push_back({.from = 0,
                               .to = 1,
                               .bytes = kChunks * kChunkBytes,
                               .posted_bytes = kChunks * kChunkBytes,
                               .tag = 3,
                               .send_at = 1ms,
                               .receive_at = 0ms});
  scenario.finish = false;
  return scenario;
}

class Sweep {
 public:
  explicit Sweep(std::size_t paths) : paths_(paths) { reference_ = run(std::nullopt, std::nullopt); }

  Outcome run(std::optional<FirstCut> first, std::optional<std::uint64_t> second_at);
  const Outcome& reference() const { return reference_; }

  // Runs the cut alone and then with a second one at each point of its repair.
  void check(const FirstCut& cut);
  int runs() const { return runs_; }
  std::uint64_t replayed() const { return replayed_; }

 private:
  void verify(const Outcome& outcome, const FirstCut& cut, std::optional<std::uint64_t> second_at);

  const std::size_t paths_;
  Outcome reference_;
  int runs_ = 0;
  std::uint64_t replayed_ = 0;
};

bool is_moment(const FirstCut& cut, const Sighting& seen, bool all_paths_up) {
  const bool sender = seen.process == 0;
  switch (cut.moment) {
    case Moment::kBeforePost:
      if (cut.number == 1) return all_paths_up;
      return sender && seen.event.kind == EventKind::kChunkSent && seen.event.number == cut.number - 1;
    case Moment::kAfterPost:
      return sender && seen.event.kind == EventKind::kChunkSent && seen.event.number == cut.number;
    case Moment::kAfterPlacement:
      return !sender && seen.event.kind == EventKind::kChunkPlaced && seen.event.number == cut.number;
    case Moment::kMidFrame:
      return false;
  }
  return false;
}

// The pipe from the sender to the receiver on that rail, if the connection stands.
Pipe* data_pipe(Network& network, std::uint8_t nic) {
  Pipe* last = nullptr;
  for (const auto& connection : network.connections()) {
    if (connection->nic(0).nic != nic || connection->severed()) continue;
    last = &connection->pipe(connection->nic(0).server == 0 ? 0 : 1);
  }
  return last;
}

Outcome Sweep::run(std::optional<FirstCut> first, std::optional<std::uint64_t> second_at) {
  Outcome outcome;
  outcome.arrived.resize(paths_);
  Scenario scenario = polite(paths_);
  ReplayLedger ledger;
  bool cut_done = false;
  bool armed = false;
  std::size_t trusted = 0;
  std::uint8_t cut_nic = 0;
  const Duration notice[2] = {first && first->sender_notices ? 0us : kUnnoticed,
                              first && first->sender_notices ? kUnnoticed : 0us};
  scenario.watch = [&](const Sighting& seen, Network& network) {
    ledger.see(seen);
    if (seen.event.kind == EventKind::kPathTrusted) ++trusted;
    if (seen.event.kind == EventKind::kChunkSent) outcome.nic_of_chunk[seen.event.number] = seen.here.nic;
    for (std::uint8_t nic = 0; nic < paths_; ++nic) {
      Pipe* pipe = data_pipe(network, nic);
      if (pipe != nullptr) outcome.arrived[nic] = pipe->received();
    }
    if (!first) return;
    if (first->moment == Moment::kMidFrame && !armed) {
      armed = true;
      cut_nic = first->nic;
      data_pipe(network, first->nic)->cut_at(first->number, notice[0], notice[1]);
    }
    const bool mid_frame_cut = armed && data_pipe(network, first->nic) == nullptr;
    if (cut_done || mid_frame_cut) {
      cut_done = true;
      if (second_at && outcome.events_after_cut == *second_at) {
        const auto nic = static_cast<std::uint8_t>((cut_nic + 1) % paths_);
        network.cut({0, nic}, {1, nic}, 0us, 300us, false);
      }
      ++outcome.events_after_cut;
      return;
    }
    if (!is_moment(*first, seen, trusted == 2 * paths_)) return;
    cut_done = true;
    cut_nic = reference_.nic_of_chunk[first->number];
    network.cut({0, cut_nic}, {1, cut_nic}, notice[0], notice[1], false);
  };
  outcome.report = run_scenario(scenario);
  outcome.must_replay = ledger.must_replay_bytes();
  outcome.replayed = ledger.replayed_bytes();
  return outcome;
}

void Sweep::verify(const Outcome& outcome, const FirstCut& cut, std::optional<std::uint64_t> second_at) {
  ++runs_;
  replayed_ += outcome.replayed;
  const std::string what =
      fmt::format("{} paths, cut {} at {} on NIC {}, noticed by the {}, second cut at event {}", paths_,
                  static_cast<int>(cut.moment), cut.number, cut.nic, cut.sender_notices ? "sender" : "receiver",
                  second_at ? fmt::to_string(*second_at) : "none");
  ASSERT_TRUE(outcome.report.ok) << what << ": "
                                 << (outcome.report.violations.empty() ? "" : outcome.report.violations[0]);
  ASSERT_EQ(outcome.replayed, outcome.must_replay) << what;
  const std::size_t fences = cut.moment == Moment::kMidFrame ? 1 : 2;
  ASSERT_GE(outcome.report.repairs, fences) << what << ": both ends fence";
}

void Sweep::check(const FirstCut& cut) {
  const Outcome alone = run(cut, std::nullopt);
  ASSERT_NO_FATAL_FAILURE(verify(alone, cut, std::nullopt));
  for (std::uint64_t at = 0; at < alone.events_after_cut; ++at) {
    ASSERT_NO_FATAL_FAILURE(verify(run(cut, at), cut, at));
  }
}

class SweepTest : public testing::TestWithParam<std::size_t> {};

TEST_P(SweepTest, CutAroundEveryChunkIsRepairedExactly) {
  Sweep sweep(GetParam());
  ASSERT_TRUE(sweep.reference().report.ok) << sweep.reference().report.violations[0];
  for (const Moment moment : {Moment::kBeforePost, Moment::kAfterPost, Moment::kAfterPlacement}) {
    for (std::uint64_t chunk = 1; chunk <= kChunks; ++chunk) {
      for (const bool sender_notices : {true, false}) {
        ASSERT_NO_FATAL_FAILURE(sweep.check({moment, chunk, 0, sender_notices}));
      }
    }
  }
  EXPECT_GT(sweep.replayed(), 0u);
  RecordProperty("runs", sweep.runs());
}

TEST_P(SweepTest, CutInTheMiddleOfEveryFrameIsRepairedExactly) {
  Sweep sweep(GetParam());
  for (std::uint8_t nic = 0; nic < GetParam(); ++nic) {
    const std::uint64_t end = sweep.reference().arrived[nic];
    for (std::uint64_t position = 300; position < end; position += kChunkBytes / 2) {
      for (const bool sender_notices : {true, false}) {
        ASSERT_NO_FATAL_FAILURE(sweep.check({Moment::kMidFrame, position, nic, sender_notices}));
      }
    }
  }
  EXPECT_GT(sweep.replayed(), 0u);
  RecordProperty("runs", sweep.runs());
}

INSTANTIATE_TEST_SUITE_P(Paths, SweepTest, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace r2ccl::sim
