#pragma once
// What `r2ccl plan` and `r2ccl sim` print about algorithms on a cluster, for people and as JSON.

#include <optional>
#include <string>
#include <vector>

#include "apps/r2ccl/common/cluster_options.h"
#include "apps/r2ccl/common/console.h"
#include "apps/r2ccl/common/json.h"
#include "planner/bounds.h"
#include "sim/study/evaluate.h"

namespace r2ccl::apps {

struct EvaluationRow {
  std::string name;
  std::optional<sim::Evaluation> evaluation;
  std::string reason;  // why there is none
};

struct EvaluationReport {
  Request request;
  Cluster cluster;
  Bounds bounds;
  std::vector<EvaluationRow> rows;
  std::string chosen;  // by auto's cost model
};

// Evaluates each; what auto would choose is found too. An algorithm that does not apply becomes a row with the reason;
// one whose schedule the checker refuses is a bug and fails.
Result<EvaluationReport> evaluate_all(const ClusterOptions& options, const sim::EvaluateOptions& how, Console& console);

Json to_json(const EvaluationReport& report);
void print_report(const EvaluationReport& report, Console& console);
std::string seconds_text(double seconds);  // "4.027 ms"

// The process's monotonic clock in seconds.
double wall_seconds();

}  // namespace r2ccl::apps
