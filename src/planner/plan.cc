#include "planner/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/algorithm/algorithm.h"

namespace r2ccl {

Schedule Plan::schedule() const {
  Schedule schedule{header, {}};
  schedule.lanes.reserve(header.ranks);
  for (std::uint32_t rank = 0; rank < header.ranks; ++rank) schedule.lanes.push_back(lanes(rank));
  return schedule;
}

PlanHeader header_for(const Request& request, const Cluster& cluster, std::string_view algorithm) {
  PlanHeader header;
  header.collective = request.collective;
  header.algorithm = algorithm;
  header.ranks = cluster.ranks();
  header.ranks_per_server = cluster.gpus;
  header.root = request.root;
  return header;
}

}  // namespace r2ccl
