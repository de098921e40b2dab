#include "planner/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/algorithm/algorithm.h"

namespace r2ccl {

Schedule Plan::schedule() const {
  Schedule schedule{frame, {}};
  schedule.lanes.reserve(frame.ranks);
  for (std::uint32_t rank = 0; rank < frame.ranks; ++rank) schedule.lanes.push_back(lanes(rank));
  return schedule;
}

Frame frame_for(const Request& request, const Cluster& cluster, std::string_view algorithm) {
  Frame frame;
  frame.collective = request.collective;
  frame.algorithm = algorithm;
  frame.ranks = cluster.ranks();
  frame.ranks_per_server = cluster.gpus;
  frame.root = request.root;
  return frame;
}

}  // namespace r2ccl
