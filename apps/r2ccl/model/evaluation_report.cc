#include "apps/r2ccl/model/evaluation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/table.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

Result<EvaluationRow> evaluate_row(const std::string& name, const Request& request, const Cluster& planned,
                                   sim::Proofs& proofs, const sim::EvaluateOptions& how) {
  Result<sim::Evaluation> evaluation = sim::evaluate(name, request, planned, proofs, how);
  if (evaluation) return EvaluationRow{evaluation->name, std::move(*evaluation), {}};
  if (evaluation.error().fault != Fault::kMisuse) return std::unexpected(evaluation.error());
  return EvaluationRow{name, std::nullopt, evaluation.error().what};
}

double ratio(double time_s, double reference_s) {
  return reference_s > 0 ? time_s / reference_s : 0;
}

std::string ratio_text(double value) {
  return value > 0 ? fmt::format("{:.4f}", value) : "-";
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

double wall_seconds() {
  return to_seconds(steady_now().time_since_epoch());
}

Result<EvaluationReport> evaluate_all(const ClusterOptions& options, const sim::EvaluateOptions& how,
                                      Console& console) {
  const Result<Request> request = request_of(options);
  if (!request) return std::unexpected(request.error());
  const Result<Cluster> cluster = cluster_of(options);
  if (!cluster) return std::unexpected(cluster.error());
  const Result<std::vector<std::string>> names = algorithms_of(options);
  if (!names) return std::unexpected(names.error());

  EvaluationReport report{*request, *cluster, bounds_of(request->collective, request->bytes, *cluster), {}, {}};
  const Result<Plan> chosen = plan("auto", *request, *cluster, how.tuning);
  if (!chosen) return std::unexpected(chosen.error());
  report.chosen = chosen->header.algorithm;
  // A fault inside the collective meets the schedule that was planned before it.
  const Result<Cluster> planned = how.timing.faults.empty() ? cluster : healthy_cluster_of(options);
  sim::Proofs proofs;
  for (const std::string& name : *names) {
    console.progress(fmt::format("{} ({} of {})", name, report.rows.size() + 1, names->size()));
    Result<EvaluationRow> row = evaluate_row(name, *request, *planned, proofs, how);
    if (!row) return std::unexpected(row.error());
    report.rows.push_back(std::move(*row));
  }
  console.progress("");
  if (names->size() == 1 && !report.rows[0].evaluation) return fail(Fault::kMisuse, report.rows[0].reason);
  return report;
}

Json to_json(const EvaluationReport& report) {
  auto rows = Json::array();
  for (const EvaluationRow& row : report.rows) {
    if (!row.evaluation) {
      rows.push_back({{"name", row.name}, {"checked", false}, {"reason", row.reason}});
      continue;
    }
    const sim::Evaluation& e = *row.evaluation;
    rows.push_back({{"name", row.name},
                    {"time_s", e.timing.time_s},
                    {"healthy_ratio", ratio(e.timing.time_s, report.bounds.healthy_ring_s)},
                    {"bound_ratio", ratio(e.timing.time_s, report.bounds.bound_s)},
                    {"checked", true},
                    {"steps", e.checked.steps},
                    {"scratch_bytes", e.scratch_bytes},
                    {"predicted_s", e.predicted_s},
                    {"messages", e.timing.messages},
                    {"smallest_message_bytes", e.timing.smallest_message},
                    {"plan_wall_s", e.plan_wall_s},
                    {"check_wall_s", e.check_wall_s},
                    {"time_wall_s", e.time_wall_s}});
  }
  const Bounds& bounds = report.bounds;
  return {{"collective", to_text(report.request.collective)},
          {"bytes", report.request.bytes},
          {"fabric", report.cluster.fabric == Fabric::kRails ? "rails" : "routed"},
          {"alpha_s", report.cluster.alpha_s},
          {"port_cost_s", report.cluster.port_cost_s},
          {"min_message_bytes", report.cluster.min_message},
          {"bound_s", bounds.bound_s},
          {"network_bound_s", bounds.network_s},
          {"intra_bound_s", bounds.intra_s},
          {"one_port_bound_s", bounds.one_port_s},
          {"healthy_ring_s", bounds.healthy_ring_s},
          {"healthy_flat_ring_s", bounds.healthy_flat_s},
          {"algorithms", rows},
          {"chosen", report.chosen}};
}

void print_report(const EvaluationReport& report, Console& console) {
  const Bounds& bounds = report.bounds;
  console.line(describe(report.request, report.cluster));
  console.line(fmt::format("bound {} (network {}{}), healthy ring {}", seconds_text(bounds.bound_s),
                           seconds_text(bounds.network_s),
                           bounds.intra_s > 0 ? ", inside servers " + seconds_text(bounds.intra_s) : "",
                           seconds_text(bounds.healthy_ring_s)));
  Table table({{"algorithm"},
               {"time", Align::kRight},
               {"/healthy", Align::kRight},
               {"/bound", Align::kRight},
               {"predicted", Align::kRight},
               {"messages", Align::kRight},
               {"smallest", Align::kRight},
               {"steps", Align::kRight},
               {"scratch", Align::kRight},
               {"checker"}});
  for (const EvaluationRow& row : report.rows) {
    const bool is_chosen = row.name == report.chosen;
    const Cell name(row.name, is_chosen ? Colour::kBold : Colour::kPlain);
    if (!row.evaluation) {
      table.add({name, "-", "-", "-", "-", "-", "-", "-", "-", Cell(row.reason, Colour::kDim)});
      continue;
    }
    const sim::Evaluation& e = *row.evaluation;
    table.add({name, seconds_text(e.timing.time_s), ratio_text(ratio(e.timing.time_s, bounds.healthy_ring_s)),
               ratio_text(ratio(e.timing.time_s, bounds.bound_s)), seconds_text(e.predicted_s),
               fmt::format("{}", e.timing.messages), bytes_text(e.timing.smallest_message),
               fmt::format("{}", e.checked.steps), bytes_text(e.scratch_bytes),
               Cell(is_chosen ? "proven, chosen by auto" : "proven", Colour::kGreen)});
  }
  console.out(table.text(console));
}

}  // namespace r2ccl::apps
