#include "tools/perf_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "comm/world.h"
#include "tools/perf_data.h"
#include "tools/perf_faults.h"
#include "tools/perf_report.h"

namespace r2ccl::tools {
namespace {

constexpr std::byte kPoison{0xee};  // no value of any type that is ever sent

// The communicator failed; its sentence.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void must(const Status& status) {
  if (!status) throw Failed(status.error().what);
}

// What ranks tell each other beside the measurement, over the communicator that is measured.
class Side final {
 public:
  explicit Side(Comm& comm) : comm_(comm) {}

  void barrier() {
    std::int32_t one = 1;
    reduce(&one, 1, DataType::kInt32, ReduceName::kSum);
  }
  std::uint64_t sum(std::uint64_t value) {
    reduce(&value, 1, DataType::kUint64, ReduceName::kSum);
    return value;
  }
  std::vector<double> mean(std::vector<double> values) {
    reduce(values.data(), values.size(), DataType::kFloat64, ReduceName::kAvg);
    return values;
  }
  std::vector<std::string> gather(const std::string& text) {
    std::uint64_t length = text.size();
    reduce(&length, 1, DataType::kUint64, ReduceName::kMax);
    std::string padded = text;
    padded.resize(length, ' ');
    std::string all(length * comm_.size(), ' ');
    must(comm_.run({.kind = CallKind::kAllGather,
                    .input = padded.data(),
                    .output = all.data(),
                    .count = length,
                    .type = DataType::kUint8}));
    std::vector<std::string> texts;
    for (std::uint32_t rank = 0; rank < comm_.size(); ++rank) texts.push_back(all.substr(rank * length, length));
    return texts;
  }

 private:
  void reduce(void* data, std::uint64_t count, DataType type, ReduceName name) {
    must(comm_.run({.input = data, .output = data, .count = count, .type = type, .op = {name}}));
  }
  Comm& comm_;
};

// Memory of a row and what is in it.
class Buffers final {
 public:
  void prepare(const PerfCase& one) {
    const std::size_t size = size_of(one.type);
    place_ = in_place_of(one);
    input_bytes_ = one.input_count() * size;
    output_bytes_ = one.output_count() * size;
    grow(first_, one.in_place ? place_.memory * size : input_bytes_);
    grow(second_, one.in_place ? 0 : output_bytes_);
    input_ = first_.data() + (one.in_place ? place_.input * size : 0);
    output_ = one.in_place ? first_.data() + place_.output * size : second_.data();
  }
  std::span<std::byte> input() { return {input_, input_bytes_}; }
  std::span<std::byte> output() { return {output_, output_bytes_}; }

 private:
  // Never null: callers may hand over empty buffers.
  static void grow(std::vector<std::byte>& memory, std::size_t bytes) {
    if (memory.size() < std::max<std::size_t>(bytes, 1)) memory.resize(std::max<std::size_t>(bytes, 1));
  }
  std::vector<std::byte> first_, second_;
  InPlace place_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::size_t input_bytes_ = 0;
  std::size_t output_bytes_ = 0;
};

class PerfRank final {
 public:
  PerfRank(const PerfOptions& options, Comm& comm, Console& console)
      : options_(options), comm_(comm), side_(comm), console_(console) {}

  // Every row, in the order that all ranks share.
  void run(const PerfWork& work) {
    print(perf_header());
    for (const DataType type : work.types) {
      for (const ReduceName op : work.ops) {
        PerfData data(type, op, comm_.size());
        for (const std::uint32_t root : work.roots) {
          for (const std::uint64_t bytes : work.sizes) measure(*work.collective, data, {type, op, root, bytes});
        }
      }
    }
    print(perf_summary(rows_));
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

  void measure(const PerfCollective& collective, PerfData& data, const Shape& shape) {
    PerfCase one{.collective = &collective,
                 .count = count_for(collective, shape.bytes, size_of(shape.type), comm_.size()),
                 .type = shape.type,
                 .op = {shape.op},
                 .root = shape.root,
                 .rank = comm_.rank(),
                 .ranks = comm_.size()};
    if (shape.op == ReduceName::kPreMulSum) one.op.scalar = premul_scalar(shape.type, one.ranks, one.rank);
    const PerfRow first = row_of(one, data);
    rows_.push_back(first);
    std::optional<PerfRow> second;
    if (collective.in_place) {
      one.in_place = true;
      second = row_of(one, data);
      rows_.push_back(*second);
    }
    print(perf_line(first, second));
  }

  PerfRow row_of(const PerfCase& one, PerfData& data) {
    PerfRow row;
    row.one = one;
    row.bytes = bytes_of(*one.collective, one.count, size_of(one.type), one.ranks);
    buffers_.prepare(one);
    std::vector<double> times;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < options_.warmups + options_.iterations; ++i) {
      const double time = iterate(one, data, row);
      if (i >= options_.warmups) times.push_back(time);
      if (options_.check != 0) wrong += check(one, data);
    }
    row.time = spread_of(side_.mean(std::move(times)));
    if (options_.check != 0) row.wrong = side_.sum(wrong);
    return row;
  }

  // Microseconds between everybody being ready and this rank being done.
  double iterate(const PerfCase& one, PerfData& data, PerfRow& row) {
    if (options_.check != 0) {
      data.draw(operation_++);
      std::ranges::fill(buffers_.output(), kPoison);
      data.fill(buffers_.input(), one.rank);
    }
    const std::vector<Call> calls = calls_of(one, buffers_.input().data(), buffers_.output().data());
    side_.barrier();
    const Instant begin = steady_now();
    if (calls.size() == 1) {
      must(comm_.run(calls.front()));
    } else {
      const auto ticket = comm_.submit(calls);
      if (!ticket) throw Failed(ticket.error().what);
      must(comm_.wait(*ticket));
    }
    const Duration took = steady_now() - begin;
    const PlanInUse plan = comm_.plan_in_use();
    row.algorithm = one.collective->kind == CallKind::kSend ? "send_recv" : plan.algorithm;
    row.health_version = plan.health_version;
    return to_ms(took) * 1e3;
  }

  std::uint64_t check(const PerfCase& one, const PerfData& data) {
    std::span<const std::byte> output = buffers_.output();
    std::uint64_t wrong = 0;
    for (const Expected& expected : expected_of(one)) {
      const std::size_t bytes = expected.count * size_of(one.type);
      wrong += data.count_wrong(output.first(bytes), expected);
      output = output.subspan(bytes);
    }
    return wrong;
  }

  const PerfOptions& options_;
  Comm& comm_;
  Side side_;
  Console& console_;
  Buffers buffers_;
  std::uint64_t operation_ = 0;
  std::vector<PerfRow> rows_;
};

// Listens while it lives.
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

std::vector<FaultRow> all_faults(Side& side, const FactsByNic& mine, const std::string& injected) {
  FactsByNic all;
  for (const std::string& text : side.gather(facts_text(mine))) {
    for (const auto& [nic, facts] : facts_from(text)) all[nic].merge(facts);
  }
  std::vector<FaultSpec> specs;
  if (!injected.empty()) specs = parse_faults(injected).value_or(specs);
  return fault_rows(all, specs);
}

Status write_json(const PerfOptions& options, const std::vector<PerfRow>& rows, const std::vector<FaultRow>& faults,
                  Console& console) {
  Json object{{"rows", Json::array()}, {"faults", Json::array()}};
  for (const PerfRow& row : rows) object["rows"].push_back(to_json(row));
  for (const FaultRow& fault : faults) object["faults"].push_back(to_json(fault));
  const std::string text = object.dump() + "\n";
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

Result<std::shared_ptr<Comm>> join(World& world, const Launched& launch, const Address& place,
                                   const CommConfig& config) {
  const auto id = meet(world, launch, place);
  if (!id) return std::unexpected(id.error());
  auto comm = world.join(*id, launch.rank, launch.size, config);
  if (!comm) return std::unexpected(comm.error());
  if (const Status joined = (*comm)->wait_joined(); !joined) return std::unexpected(joined.error());
  return comm;
}

Result<int> measure_all(const PerfOptions& options, const PerfWork& work, Comm& comm, const std::string& injected,
                        Console& console) {
  PerfRank rank(options, comm, console);
  rank.side().barrier();
  Watching watching(comm);
  rank.run(work);
  const std::vector<FaultRow> faults = all_faults(rank.side(), watching.facts(), injected);
  for (const FaultRow& fault : faults) rank.print(fault_line(fault));
  if (options.json && comm.rank() == 0) {
    if (const Status written = write_json(options, rank.rows(), faults, console); !written)
      return std::unexpected(written.error());
  }
  return rank.wrong() == 0 ? kExitOk : kExitFailed;
}

}  // namespace

Result<int> run_perf_rank(const PerfOptions& options, const Launched& launch, const Settings& settings,
                          Console& console) {
  const auto work = work_of(options, launch.size);
  if (!work) return std::unexpected(work.error());
  Address place;
  if (!launch.id && !launch.host.empty()) {
    const auto resolved = resolve(launch.host, launch.port);
    if (!resolved) return std::unexpected(resolved.error());
    place = *resolved;
  }
  World world(settings_for(launch, settings, place));
  const auto comm = join(world, launch, place, config_of(options, settings));
  if (!comm) return std::unexpected(comm.error());
  try {
    const Result<int> status = measure_all(options, *work, **comm, settings.fault, console);
    if (const Status ended = (*comm)->finalize(); !ended) return std::unexpected(ended.error());
    return status;
  } catch (const Failed& failed) {
    return fail(Fault::kPeerDown, failed.what());
  }
}

}  // namespace r2ccl::tools
