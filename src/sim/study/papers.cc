#include "sim/study/papers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "sim/side_by_side.h"
#include "sim/study/paper_tables.h"

namespace r2ccl::sim {

Result<std::vector<PaperRow>> paper_rows(const PaperOptions& options) {
  std::vector<PaperJob> jobs = paper_jobs();
  std::erase_if(jobs, [&](const PaperJob& job) {
    return job.table.find(options.table) == std::string::npos || (options.ranks != 0 && job.ranks > options.ranks);
  });
  // The largest first: the last one begun keeps a single thread busy.
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return jobs[i].ranks; });
  std::vector<PaperRow> rows(jobs.size());  // each written by one thread
  const auto make_worker = [&]() -> NumberedTask {
    return [&, proofs = std::make_shared<Proofs>()](std::uint64_t number) -> Status {
      const std::size_t i = order[number];
      const PaperJob& job = jobs[i];
      const Result<double> ours = job.run(*proofs);
      if (!ours) return fail(ours.error().fault, fmt::format("{}, {}: {}", job.table, job.name, ours.error().what));
      rows[i] = {job.table, job.name, job.paper, *ours, job.model};
      return {};
    };
  };
  const auto progress = [&](std::uint64_t done) {
    if (options.progress) options.progress(done, jobs.size());
  };
  if (Status ok = side_by_side(jobs.size(), options.threads, make_worker, progress); !ok)
    return std::unexpected(ok.error());
  return rows;
}

}  // namespace r2ccl::sim
