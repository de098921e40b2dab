#pragma once
// The papers' tables as work to do: what to plan, on what, and what the paper says.

#include <functional>
#include <string>
#include <vector>

#include "sim/study/evaluate.h"

namespace r2ccl::sim {

struct PaperJob {
  std::string table;
  std::string name;
  double paper = 0;
  std::uint32_t ranks = 0;
  PortModel model = PortModel::kMultiPort;
  std::function<Result<double>(Proofs&)> run;  // our figure
};

// All tables, in the order in which they are printed.
std::vector<PaperJob> paper_jobs();

// Members of one rank and `nics` NICs each, without latency and port cost, as the papers' models have it; member i
// keeps `kept[i]` of its NICs, members beyond the list all.
Cluster ideal_cluster(std::uint32_t members, std::uint32_t nics, const std::vector<std::uint32_t>& kept);

}  // namespace r2ccl::sim
