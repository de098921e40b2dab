#include "sim/study/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>

#include "base/assert.h"
#include "env/seeded_random.h"
#include "planner/bounds.h"
#include "sim/side_by_side.h"

namespace r2ccl::sim {
namespace {

Result<Sample> run_case(Case drawn, std::string_view algorithm, bool with_balance, Proofs& proofs) {
  const EvaluateOptions options{.scratch = false};
  Result<Evaluation> evaluation = evaluate(algorithm, drawn.request, drawn.cluster, proofs, options);
  if (!evaluation) return std::unexpected(evaluation.error());
  Sample sample{.drawn = std::move(drawn), .name = evaluation->name};
  sample.time_s = evaluation->timing.time_s;
  sample.smallest_message = evaluation->timing.smallest_message;
  const Request& request = sample.drawn.request;
  const Bounds bounds = bounds_of(request.collective, request.bytes, sample.drawn.cluster);
  sample.bound_s = bounds.bound_s;
  sample.network_s = bounds.network_s;
  sample.intra_s = bounds.intra_s;
  if (with_balance) {
    const Result<Evaluation> balance = evaluate("balance", request, sample.drawn.cluster, proofs, options);
    if (balance) sample.balance_s = balance->timing.time_s;
  }
  return sample;
}

// The proof of the first case's schedule. Most other cases have its shape, and a thread that has the proof need not
// find it again. A case that can not be planned or is refused says so when it is run.
Proofs first_proof(const Case& first, std::string_view algorithm) {
  Proofs proofs;
  const Result<Plan> planned = plan(algorithm, first.request, first.cluster);
  if (planned) std::ignore = proofs.check(planned->schedule());
  return proofs;
}

}  // namespace

Damage draw_damage(Cluster& cluster, std::uint32_t failures, bool some_slow, std::uint64_t seed) {
  SeededRandom random(seed);
  Damage damage;
  std::vector<bool> hit(cluster.rate.size(), false);
  // Servers with one NIC left can not lose it, so a draw may have to be repeated; bounded, because small clusters may
  // be used up.
  for (std::uint32_t tries = 0; damage.lost.size() + damage.slow.size() < failures && tries < 100 * failures; ++tries) {
    const auto server = static_cast<std::uint32_t>(random.below(cluster.servers));
    const auto nic = static_cast<std::uint32_t>(random.below(cluster.nics));
    const bool slow = some_slow && random.below(2) == 1;
    const double fraction = 0.1 * static_cast<double>(random.between(1, 9));
    if (hit[server * cluster.nics + nic]) continue;
    if (slow) {
      R2CCL_ASSERT(slow_nic(cluster, server, nic, fraction), "a drawn NIC exists");
      damage.slow.push_back({server, nic, fraction});
    } else {
      if (!lose_nic(cluster, server, nic)) continue;
      damage.lost.emplace_back(server, nic);
    }
    hit[server * cluster.nics + nic] = true;
  }
  return damage;
}

Summary summarise(const std::vector<Sample>& samples) {
  Summary summary{.samples = samples.size()};
  if (samples.empty()) return summary;
  std::vector<double> ratios;
  for (const Sample& sample : samples) {
    ratios.push_back(sample.ratio());
    if (sample.balance_s > 0 && sample.time_s > sample.balance_s) ++summary.slower_than_balance;
    if (sample.ratio() >= summary.max) {
      summary.max = sample.ratio();
      summary.worst_seed = sample.drawn.seed;
    }
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double part) {
    return ratios[static_cast<std::size_t>(part * static_cast<double>(ratios.size() - 1))];
  };
  summary.mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
  summary.p50 = at(0.5);
  summary.p99 = at(0.99);
  return summary;
}

Result<std::vector<Sample>> sweep(const std::function<Case(std::uint64_t seed)>& draw, std::string_view algorithm,
                                  const SweepOptions& options) {
  std::vector<Sample> samples(options.samples);  // each written by one thread
  const Proofs first = options.samples > 0 ? first_proof(draw(options.seed), algorithm) : Proofs{};
  const auto make_worker = [&]() -> NumberedTask {
    return [&, proofs = std::make_shared<Proofs>(first)](std::uint64_t i) -> Status {
      const std::uint64_t seed = options.seed + i;
      Result<Sample> sample = run_case(draw(seed), algorithm, options.with_balance, *proofs);
      if (!sample) return fail(sample.error().fault, fmt::format("seed {}: {}", seed, sample.error().what));
      samples[i] = std::move(*sample);
      return {};
    };
  };
  if (Status ok = side_by_side(options.samples, options.threads, make_worker, options.progress); !ok) {
    return std::unexpected(ok.error());
  }
  return samples;
}

}  // namespace r2ccl::sim
