#include "apps/r2ccl/perf/perf_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/rank_job.h"
#include "apps/r2ccl/perf/perf_faults.h"
#include "apps/r2ccl/perf/perf_report.h"
#include "process/seed_loss.h"

namespace r2ccl::apps {
namespace {

class PerfRank final {
 public:
  PerfRank(const PerfOptions& options, Comm& comm, Console& console)
      : options_(options), comm_(comm), side_(comm), calls_(comm), console_(console) {}

  // Every row, in the order that all ranks share.
  Status run(const PerfWork& work) {
    print(perf_header());
    for (const DataType type : work.types) {
      for (const ReduceName op : work.ops) {
        if (const Status measured = measure_all(work, type, op); !measured) return measured;
      }
    }
    print(perf_summary(rows_));
    return {};
  }

  const std::vector<PerfRow>& rows() const { return rows_; }
  std::uint64_t wrong() const {
    std::uint64_t all = 0;
    for (const PerfRow& row : rows_) all += row.wrong.value_or(0);
    return all;
  }

  void print(const std::string& text) {
    const bool to_stdout = options_.json && options_.json->empty();
    if (comm_.rank() == 0 && !to_stdout) console_.out(text);
  }
  Side& side() { return side_; }

 private:
  struct Shape {
    DataType type;
    ReduceName op;
    std::uint32_t root;
    std::uint64_t bytes;
  };

  Status measure_all(const PerfWork& work, DataType type, ReduceName op) {
    PerfData data(type, op, comm_.size());
    for (const std::uint32_t root : work.roots) {
      for (const std::uint64_t bytes : work.sizes) {
        const Status measured = measure(*work.collective, data, {type, op, root, bytes});
        if (!measured) return measured;
      }
    }
    return {};
  }

  Status measure(const PerfCollective& collective, PerfData& data, const Shape& shape) {
    PerfCase one{.collective = &collective,
                 .count = count_for(collective, shape.bytes, size_of(shape.type), comm_.size()),
                 .type = shape.type,
                 .op = {shape.op},
                 .root = shape.root,
                 .rank = comm_.rank(),
                 .ranks = comm_.size()};
    if (shape.op == ReduceName::kPreMulSum) one.op.scalar = premul_scalar(shape.type, one.ranks, one.rank);
    const auto first = row_of(one, data);
    if (!first) return std::unexpected(first.error());
    rows_.push_back(*first);
    std::optional<PerfRow> second;
    if (collective.in_place) {
      one.in_place = true;
      auto row = row_of(one, data);
      if (!row) return std::unexpected(row.error());
      second = std::move(*row);
      rows_.push_back(*second);
    }
    print(perf_line(*first, second));
    return {};
  }

  Result<PerfRow> row_of(const PerfCase& one, PerfData& data) {
    PerfRow row;
    row.one = one;
    row.bytes = bytes_of(*one.collective, one.count, size_of(one.type), one.ranks);
    calls_.prepare(one);
    std::vector<double> times;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < options_.warmups + options_.iterations; ++i) {
      const auto time = iterate(one, data, row);
      if (!time) return std::unexpected(time.error());
      if (i >= options_.warmups) times.push_back(*time);
      if (options_.check != 0) wrong += calls_.wrong(one, data);
    }
    auto mean = side_.mean(std::move(times));
    if (!mean) return std::unexpected(mean.error());
    row.time = spread_of(std::move(*mean));
    if (options_.check == 0) return row;
    const auto wrong_anywhere = side_.sum(wrong);
    if (!wrong_anywhere) return std::unexpected(wrong_anywhere.error());
    row.wrong = *wrong_anywhere;
    return row;
  }

  // Microseconds.
  Result<double> iterate(const PerfCase& one, PerfData& data, PerfRow& row) {
    if (options_.check != 0) calls_.fill(one, data);
    const auto took = calls_.run(one, [&] {
      if (row.begun_ms == 0) row.begun_ms = to_ms(steady_now() - start_);
    });
    if (!took) return std::unexpected(took.error());
    const PlanInUse plan = comm_.plan_in_use();
    row.algorithm = one.collective->kind == CallKind::kSend ? "send_recv" : plan.algorithm;
    row.health_version = plan.health_version;
    return to_ms(*took) * 1e3;
  }

  const PerfOptions& options_;
  Comm& comm_;
  Side side_;
  CheckedCalls calls_;
  Console& console_;
  const Instant start_ = steady_now();
  std::vector<PerfRow> rows_;
};

// Listens to the engine's telemetry while it lives.
class Watching final {
 public:
  explicit Watching(Comm& comm) : comm_(comm) {
    comm_.inspect([&](const Engine& engine, Telemetry& telemetry) {
      watch_ = std::make_unique<FaultWatch>(engine.self(), engine.roster(), steady_now());
      telemetry.set_listener(watch_.get());
    });
  }
  ~Watching() {
    comm_.inspect([](const Engine&, Telemetry& telemetry) { telemetry.set_listener(nullptr); });
  }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

  FactsByNic facts() {
    FactsByNic facts;
    comm_.inspect([&](const Engine& engine, Telemetry&) { facts = watch_->facts(engine.verdicts()); });
    return facts;
  }

 private:
  Comm& comm_;
  std::unique_ptr<FaultWatch> watch_;
};

// What is broken on purpose, by the library itself.
std::vector<FaultSpec> injected_faults(const Settings& settings, Comm& comm) {
  std::vector<FaultSpec> specs;
  if (!settings.fault.empty()) return parse_faults(settings.fault).value_or(specs);
  if (settings.seed_loss == SeedLoss::kNone) return specs;
  comm.inspect([&](const Engine& engine, Telemetry&) {
    if (const auto fault = plan_loss(settings, engine.roster()).fault) specs.push_back(*fault);
  });
  return specs;
}

Result<std::vector<FaultRow>> all_faults(Side& side, const FactsByNic& mine, const std::vector<FaultSpec>& injected) {
  const auto texts = side.gather(facts_text(mine));
  if (!texts) return std::unexpected(texts.error());
  FactsByNic all;
  for (const std::string& text : *texts) {
    for (const auto& [nic, facts] : facts_from(text)) all[nic].merge(facts);
  }
  return fault_rows(all, injected);
}

Status write_json(const PerfOptions& options, const std::vector<PerfRow>& rows, const std::vector<FaultRow>& faults,
                  Console& console) {
  Json object{{"rows", Json::array()}, {"faults", Json::array()}};
  for (const PerfRow& row : rows) object["rows"].push_back(to_json(row));
  for (const FaultRow& fault : faults) object["faults"].push_back(to_json(fault));
  const std::string text = json_text(object) + "\n";
  if (options.json->empty()) {
    console.out(text);
    return {};
  }
  std::ofstream file(*options.json);
  file << text << std::flush;
  return file ? Status{} : fail(Fault::kBusy, fmt::format("'{}' can not be written", *options.json));
}

CommConfig config_of(const PerfOptions& options, const Settings& settings) {
  CommConfig config;
  config.mode = settings.mode;
  config.algorithm = options.algorithm.empty() ? settings.algorithm : options.algorithm;
  config.fabric = settings.fabric == "rails" ? Fabric::kRails : Fabric::kRouted;
  return config;
}

// Every row, and after them what happened to NICs meanwhile.
Result<std::vector<FaultRow>> measure_watched(PerfRank& rank, const PerfWork& work, Comm& comm,
                                              const Settings& settings) {
  if (const Status ready = rank.side().barrier(); !ready) return std::unexpected(ready.error());
  Watching watching(comm);
  if (const Status measured = rank.run(work); !measured) return std::unexpected(measured.error());
  return all_faults(rank.side(), watching.facts(), injected_faults(settings, comm));
}

}  // namespace

Result<int> run_perf_rank(const PerfOptions& options, const Launched& launch, const Settings& settings,
                          Console& console) {
  const auto work = work_of(options, launch.size);
  if (!work) return std::unexpected(work.error());
  const auto seat = seat_of(launch);
  if (!seat) return std::unexpected(seat.error());
  const auto job = join_job(*seat, settings, config_of(options, settings));
  if (!job) return std::unexpected(job.error());
  Comm& comm = *job->comm;
  PerfRank rank(options, comm, console);
  const auto faults = measure_watched(rank, *work, comm, settings);
  // Whatever a communicator ends with, the command line was good.
  if (!faults) return fail(Fault::kPeerDown, faults.error().what);
  for (const FaultRow& fault : *faults) rank.print(fault_line(fault));
  Status written;
  if (options.json && comm.rank() == 0) written = write_json(options, rank.rows(), *faults, console);
  if (const Status ended = comm.finalize(); !ended) return std::unexpected(ended.error());
  if (!written) return std::unexpected(written.error());
  return rank.wrong() == 0 ? kExitOk : kExitFailed;
}

}  // namespace r2ccl::apps
