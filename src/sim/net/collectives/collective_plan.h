#pragma once
// The collectives of a simulated run as a value, drawn from the seed: communicators over the same processes in
// different orders, and what each runs. Data and right answers are functions of the plan (collective_truth.h).

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "comm/communicator.h"
#include "sim/net/sim_random.h"

namespace r2ccl::sim {

struct Scenario;

struct PlannedCall {
  CallKind kind = CallKind::kAllReduce;
  std::uint32_t count = 0;
  DataType type = DataType::kInt32;  // integers: every order of additions gives the same bits
  ReduceName op = ReduceName::kSum;
  std::uint8_t root = 0;
  std::uint8_t in_place = 0;  // ranks that give one buffer, as bits
};

// A send and the receive that takes it.
struct PlannedTransfer {
  std::uint8_t from = 0;  // rank
  std::uint8_t to = 0;
  std::uint32_t bytes = 0;
};

// What one submit() of every rank asks for.
struct PlannedBatch {
  std::vector<PlannedCall> calls;
  std::vector<PlannedTransfer> transfers;
  std::vector<Duration> due;  // [rank] not before, after the start
};

struct PlannedCommunicator {
  std::vector<std::uint8_t> process;  // [rank]
  CommConfig config;
  std::size_t depth = 1;  // batches a rank submits ahead
  Duration create_at{};   // after the start; zero: before it
  std::vector<PlannedBatch> batches;
  bool finish = true;  // else it is destroyed as it is
  std::uint32_t size() const { return static_cast<std::uint32_t>(process.size()); }
};

struct CollectivePlan {
  std::vector<PlannedCommunicator> communicators;
  // Afterwards communicator 0 goes on until all ranks agree that the NICs are as they are: what heals is whole, what is
  // gone is gone.
  bool until_healed = false;
  bool leave = false;  // a process exits as soon as its communicators have finished, whatever the network does then
};

// How many processes there are, and where.
void draw_ranks(SimRandom& random, Scenario& scenario);
CollectivePlan draw_collectives(SimRandom& random, const Scenario& scenario, Duration window);
// Takes out what faults and actions of the finished scenario rule out.
void tame_collectives(Scenario& scenario);

// Batch `index` of a communicator; beyond the planned ones: those of until_healed.
const PlannedBatch& batch_of(const PlannedCommunicator& communicator, std::size_t index);
inline constexpr Duration kHealingPause = 400ms;  // between those

}  // namespace r2ccl::sim
