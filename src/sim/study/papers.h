#pragma once
// The papers' figures beside ours. Every one of ours is the time of a schedule that the checker accepted, without
// latency and port cost, as the papers' models have it; each row says in which port model.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

struct PaperRow {
  std::string table;  // "OptCC 8.3"
  std::string name;   // "p=8 beta=7/8 optcc k=64"
  double paper = 0;   // what the paper or its reconstruction states
  double ours = 0;
  PortModel model = PortModel::kMultiPort;
  double relative_difference() const { return ours / paper - 1; }
};

struct PaperOptions {
  // Only tables whose name contains this; empty: all.
  std::string table;
  // Only rows of at most so many ranks; 0: all. The largest take longest.
  std::uint32_t ranks = 0;
  unsigned threads = 1;
  std::function<void(std::size_t done, std::size_t of)> progress;
};

Result<std::vector<PaperRow>> paper_rows(const PaperOptions& options);

}  // namespace r2ccl::sim
