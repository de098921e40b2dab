#include "apps/r2ccl/perf/perf_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "planner/plan.h"

namespace r2ccl::apps {
namespace {

constexpr std::uint64_t kBytesMax = 1ull << 40;
constexpr std::uint64_t kDefaultMaxBytes = 64 * 1024 * 1024;
constexpr std::size_t kRowsMax = 10'000;

// Those of the `count` values whose name is asked for; `what` is a type or an operation.
template <class Value>
Result<std::vector<Value>> choose(std::string_view what, std::string_view asked, std::size_t count) {
  std::vector<Value> all;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(static_cast<Value>(i));
    names.push_back(to_text(all.back()));
  }
  if (asked == "all") return all;
  const auto found = std::ranges::find(names, asked);
  if (found != names.end()) return std::vector<Value>{all[static_cast<std::size_t>(found - names.begin())]};
  return fail(Fault::kMisuse,
              fmt::format("there is no {} '{}'; there are {}, all", what, asked, fmt::join(names, ", ")));
}

Result<std::vector<std::uint32_t>> roots_of(const std::string& asked, std::uint32_t ranks) {
  std::vector<std::uint32_t> roots;
  if (asked == "all") {
    for (std::uint32_t root = 0; root < ranks; ++root) roots.push_back(root);
    return roots;
  }
  const Result<std::uint64_t> root = parse_integer(asked);
  if (!root || *root >= ranks) {
    return fail(Fault::kMisuse,
                fmt::format("-r: '{}' is not one of the {} ranks, counted from 0, nor all", asked, ranks));
  }
  return std::vector{static_cast<std::uint32_t>(*root)};
}

Result<std::vector<std::uint64_t>> sizes_of(const PerfOptions& options) {
  const std::uint64_t most = options.max_bytes.value_or(std::max(options.min_bytes, kDefaultMaxBytes));
  if (most < options.min_bytes)
    return fail(Fault::kMisuse, fmt::format("-e {} is less than -b {}", most, options.min_bytes));
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = options.min_bytes; size <= most && sizes.size() <= kRowsMax;) {
    sizes.push_back(size);
    size = options.step_bytes ? size + *options.step_bytes : size * options.factor;
    if (size == 0) break;
  }
  if (sizes.size() > kRowsMax)
    return fail(Fault::kMisuse, fmt::format("more than {} sizes are asked for; use a larger -i", kRowsMax));
  return sizes;
}

}  // namespace

void add_perf_options(Command& command, PerfOptions& o) {
  std::vector<std::string> names;
  for (const PerfCollective& one : perf_collectives()) names.emplace_back(one.name);
  command.text("collective", o.collective, fmt::format("{}", fmt::join(names, ", "))).required().value_name("");
  command.bytes({"-b,--minbytes", 0, kBytesMax, "smallest size; 8K by default"}, o.min_bytes);
  command.bytes({"-e,--maxbytes", 0, kBytesMax, "largest size; 64M by default"}, o.max_bytes);
  const Option factor =
      command.integer({"-f,--stepfactor", 2, 1 << 20, "each size times this; 2 by default"}, o.factor);
  command.bytes({"-i,--stepbytes", 1, kBytesMax, "or each size plus this"}, o.step_bytes).excludes(factor);
  command.integer({"-n,--iters", 1, 1'000'000, "measured iterations; 20 by default"}, o.iterations);
  command.integer({"-w,--warmup_iters", 0, 1'000'000, "iterations before them; 5 by default"}, o.warmups);
  command.text("-d,--datatype", o.type, "type of the elements, or all; float by default").value_name("T");
  command.text("-o,--op", o.op, "reduction, or all; sum by default").value_name("OP");
  command.text("-r,--root", o.root, "root rank, or all; 0 by default").value_name("R");
  command.integer({"-c,--check", 0, 1'000'000, "check every element of every iteration unless 0; 1 by default"},
                  o.check);
  command.integer({"-z,--blocking", 0, 1, "taken for compatibility: every call is waited for"}, o.blocking);
  command.text_or_nothing("--json", o.json, "write one JSON object to this file, or to stdout in place of the table")
      .value_name("[FILE]");
  command.text("--algo", o.algorithm, "AllReduce algorithm by name, where it applies").value_name("A");
  add_run_options(command, o.run);
}

Result<PerfWork> work_of(const PerfOptions& options, std::uint32_t ranks) {
  PerfWork work;
  const auto collective = find_collective(options.collective);
  if (!collective) return std::unexpected(collective.error());
  work.collective = *collective;
  if (!options.algorithm.empty() && options.algorithm != "auto" &&
      std::ranges::none_of(algorithms(), [&](const Algorithm& one) { return one.name == options.algorithm; }))
    return fail(Fault::kMisuse, fmt::format("--algo: there is no algorithm '{}'; see r2ccl plan", options.algorithm));
  auto sizes = sizes_of(options);
  if (!sizes) return std::unexpected(sizes.error());
  work.sizes = std::move(*sizes);
  auto types = choose<DataType>("type", options.type, kDataTypes);
  if (!types) return std::unexpected(types.error());
  work.types = std::move(*types);
  auto ops = choose<ReduceName>("operation", options.op, static_cast<std::size_t>(ReduceName::kPreMulSum) + 1);
  if (!ops) return std::unexpected(ops.error());
  work.ops = work.collective->reduces ? std::move(*ops) : std::vector{ReduceName::kSum};
  auto roots = roots_of(options.root, ranks);
  if (!roots) return std::unexpected(roots.error());
  work.roots = work.collective->has_root ? std::move(*roots) : std::vector<std::uint32_t>{0};
  return work;
}

}  // namespace r2ccl::apps
