#include "comm/agreement/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace r2ccl {
namespace {

struct ModeRow {
  std::string_view text;
  Mode mode;
  std::string_view algorithm;  // of all_reduce
};
// The plan that moves the share of a lost NIC to one other: it says so by its rails alone.
constexpr std::string_view kRepairOnly = "repair_only";
constexpr auto kModes = std::to_array<ModeRow>({
    {"off", Mode::kOff, "ring"},
    {"repair", Mode::kRepair,
     "ring"},  // as repair_only is on a healthy cluster, and several ranks a server are in it one by one
    {"balance", Mode::kBalance, "balance"},
    {"r2", Mode::kR2, "r2"},
    {"optcc", Mode::kOptcc, "optcc"},
    {"direct", Mode::kDirect, "weighted_direct"},
    {"trees", Mode::kTrees, "trees"},
    {"auto", Mode::kAuto, "auto"},
});

// Messages that stay in a processor's cache between their arrival and their sum; no more of them than this.
constexpr std::uint64_t kCachedMessage = 512 << 10;
constexpr std::uint64_t kMostSegments = 256;
// Those of an exchange take no longer than this over all NICs of a server.
constexpr double kMessageTime = 500e-6;
constexpr std::uint64_t kMostExchangeSegments = 512;

std::optional<std::uint32_t> segments_of(std::uint64_t bytes, std::uint64_t message, std::uint64_t most) {
  const std::uint64_t segments = std::min(bytes / message, most);
  if (segments <= 1) return std::nullopt;
  return static_cast<std::uint32_t>(std::bit_ceil(segments));
}

Tuning tuning_for(const Request& request, const Cluster& cluster) {
  const std::uint64_t piece = request.bytes / cluster.ranks();
  const auto in_time = static_cast<std::uint64_t>(cluster.nic_rate * cluster.nics * kMessageTime);
  const std::uint64_t finer = std::clamp(in_time, std::min(cluster.min_message, kCachedMessage), kCachedMessage);
  return {.segments = segments_of(piece, kCachedMessage, kMostSegments),
          .exchange_segments = segments_of(piece, finer, kMostExchangeSegments)};
}

// What can not do this call, or not on this cluster, gives way to auto: alike on every rank, because it is a pure
// function.
Result<Plan> make(const PlanGround& ground, const Request& request, const Cluster& cluster) {
  std::string_view name = "auto";
  if (request.collective == Collective::kAllReduce) {
    name = ground.algorithm.empty() ? std::ranges::find(kModes, ground.mode, &ModeRow::mode)->algorithm
                                    : std::string_view(ground.algorithm);
  }
  const Tuning tuning = tuning_for(request, cluster);
  Result<Plan> plan = r2ccl::plan(name, request, cluster, tuning);
  return plan || name == "auto" ? std::move(plan) : r2ccl::plan("auto", request, cluster, tuning);
}

}  // namespace

Result<Mode> mode_of(const std::string& text) {
  const auto row = std::ranges::find(kModes, text, &ModeRow::text);
  if (row == kModes.end()) return fail(Fault::kMisuse, fmt::format("There is no mode '{}'.", text));
  return row->mode;
}

bool replans(Mode mode) {
  return mode != Mode::kOff && mode != Mode::kRepair;
}

Result<Plan> whole_plan(const PlanQuestion& question) {
  const PlanGround& ground = *question.ground;
  Result<Plan> plan = make(ground, question.request, ground.cluster);
  return plan ? std::move(plan) : make(ground, question.request, ground.healthy);
}

Result<RankPlanPtr> answer(const PlanQuestion& question) {
  const Result<Plan> plan = whole_plan(question);
  if (!plan) return std::unexpected(plan.error());
  return part_of(*plan, question);
}

RankPlanPtr part_of(const Plan& plan, const PlanQuestion& question) {
  const PlanGround& ground = *question.ground;
  RankPlan made{plan.header, plan.lanes(ground.rank)};
  made.moved_bytes = moved_bytes(made, question.request.bytes / question.width, question.width);
  made.predicted_s = plan.predicted_s;
  made.keeps_rails = ground.mode == Mode::kRepair || made.header.algorithm == kRepairOnly;
  return std::make_shared<const RankPlan>(std::move(made));
}

void Plans::use(const Cluster& cluster, std::uint64_t version) {
  ground_ = std::make_shared<const PlanGround>(mode_, algorithm_, rank_, cluster, healthy_);
  version_ = version;
  kept_.clear();
  asked_.reset();
}

Plans::Key Plans::key_of(const Call& call) const {
  return {call.kind, vector_bytes(call, ground_->cluster.ranks()), call.peer};
}

RankPlanPtr Plans::find(const Key& key) const {
  const auto found = std::ranges::find(kept_, key, [](const auto& entry) { return entry.first; });
  return found == kept_.end() ? nullptr : found->second;
}

Result<RankPlanPtr> Plans::keep(const Key& key, const Result<RankPlanPtr>& plan) {
  if (!plan) return plan;
  if (kept_.size() >= kKept) kept_.erase(kept_.begin());
  return kept_.emplace_back(key, *plan).second;
}

RankPlanPtr Plans::known(const Call& call) const {
  return find(key_of(call));
}

PlanQuestion Plans::question(const Call& call) const {
  return {.ground = ground_,
          .request = {.collective = collective_of(call.kind),
                      .bytes = vector_bytes(call, ground_->cluster.ranks()),
                      .root = call.peer},
          .width = size_of(call.type)};
}

Result<RankPlanPtr> Plans::plan_for(const Call& call, Instant now) {
  const Key key = key_of(call);
  if (auto found = find(key)) return found;
  if (source_ == nullptr) return keep(key, answer(question(call)));
  if (!asked_ || asked_->key != key) asked_ = Asked{key, source_->ask(question(call))};
  const Result<RankPlanPtr>* const there = asked_->plan->poll(now);
  if (there == nullptr) return nullptr;
  Result<RankPlanPtr> plan = keep(key, *there);
  asked_.reset();
  return plan;
}

}  // namespace r2ccl
