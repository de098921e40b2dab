#include "apps/r2ccl/perf/bench_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/common/job.h"
#include "apps/r2ccl/perf/bare_link.h"
#include "apps/r2ccl/perf/bench_end.h"
#include "apps/r2ccl/perf/bench_report.h"
#include "env/settings.h"
#include "runtime/threads/process.h"

namespace r2ccl::apps {
namespace {

constexpr std::size_t kSlots = 8;  // messages under way in a session; the bare loop uses the same memory
constexpr Duration kIdle = 2s;
constexpr Duration kWorkMax = 10min;

struct LinkPlan {
  BenchLinkOptions options;
  CopyPlan copy;
  std::uint64_t trips_per_round = 0;
};

LinkPlan make_plan(const BenchLinkOptions& options) {
  const std::uint64_t per_round = std::max<std::uint64_t>(1, options.bytes / options.message_bytes / options.rounds);
  return {options,
          {per_round, options.message_bytes, kSlots},
          std::max<std::uint64_t>(1, options.roundtrips / options.rounds)};
}

// Both ends of the bare connections, before fork; the last one is for ping-pong and for saying that all has arrived.
struct BareEnds {
  std::vector<Fd> streams;
  Fd ping;
};

Result<std::pair<BareEnds, BareEnds>> connect_all(std::uint64_t paths) {
  std::pair<BareEnds, BareEnds> ends;
  for (std::uint64_t nic = 0; nic < paths; ++nic) {
    auto stream = connect_bare(bench_address(nic));
    if (!stream) return std::unexpected(stream.error());
    ends.first.streams.push_back(std::move(stream->first));
    ends.second.streams.push_back(std::move(stream->second));
  }
  auto ping = connect_bare(bench_address(0));
  if (!ping) return std::unexpected(ping.error());
  std::tie(ends.first.ping, ends.second.ping) = std::move(*ping);
  return ends;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double idle_cpu_percent() {
  const Instant start = steady_now();
  const double before = cpu_seconds();
  while (steady_now() < start + kIdle) ::poll(nullptr, 0, static_cast<int>(to_ms(start + kIdle - steady_now())) + 1);
  return 100 * (cpu_seconds() - before) / to_seconds(steady_now() - start);
}

// One of the two processes. Both go through the same phases in the same order; the first one sends, asks and measures.
class BenchProcess final {
 public:
  static Result<std::unique_ptr<BenchProcess>> create(const LinkPlan& plan, const Settings& settings, bool first,
                                                      const BareEnds& bare, LineChannel& parent) {
    auto plain = BenchEnd::create(with_checksum(settings, false), first, parent);
    if (!plain) return std::unexpected(plain.error());
    auto checked = BenchEnd::create(with_checksum(settings, true), first, parent);
    if (!checked) return std::unexpected(checked.error());
    return std::unique_ptr<BenchProcess>(
        new BenchProcess(plan, first, bare, parent, std::move(*plain), std::move(*checked)));
  }

  Status run() {
    for (std::uint64_t round = 0; round < plan_.options.rounds; ++round) {
      if (const Status copied = copy_round(); !copied) return copied;
    }
    for (std::uint64_t round = 0; round < plan_.options.rounds; ++round) {
      if (const Status asked = ping_round(); !asked) return asked;
    }
    plain_->finish();
    parent_.send(json_text(Json{{"idle_cpu_percent", idle_cpu_percent()}}));
    checked_->finish();
    return {};
  }

 private:
  BenchProcess(const LinkPlan& plan, bool first, const BareEnds& bare, LineChannel& parent,
               std::unique_ptr<BenchEnd> plain, std::unique_ptr<BenchEnd> checked)
      : plan_(plan),
        first_(first),
        bare_(bare),
        parent_(parent),
        memory_(plan.copy.message_bytes * kSlots),
        plain_(std::move(plain)),
        checked_(std::move(checked)) {}

  static Settings with_checksum(Settings settings, bool checksum) {
    settings.checksum = checksum ? "on" : "off";
    return settings;
  }

  Status copy_round() {
    const auto bare = seconds_of([&] { return copy_bare(); });
    if (!bare) return std::unexpected(bare.error());
    const auto plain = seconds_of([&] { return copy(*plain_); });
    if (!plain) return std::unexpected(plain.error());
    const auto checked = seconds_of([&] { return copy(*checked_); });
    if (!checked) return std::unexpected(checked.error());
    report({{"bytes", plan_.copy.messages * plan_.copy.message_bytes},
            {"bare_s", *bare},
            {"plain_s", *plain},
            {"checksum_s", *checked}});
    return {};
  }

  Status ping_round() {
    const std::uint64_t trips = plan_.trips_per_round;
    const auto bare = seconds_of([&] { return bare_trips(trips); });
    if (!bare) return std::unexpected(bare.error());
    const auto ours = seconds_of([&] { return trips_of(*checked_, trips); });
    if (!ours) return std::unexpected(ours.error());
    report({{"trips", trips}, {"bare_trip_s", *bare}, {"our_trip_s", *ours}});
    return {};
  }

  // Both ends meet first, so that neither waits for the other's earlier phase inside the measurement.
  template <class Body>
  Result<double> seconds_of(const Body& body) {
    if (const Status met = bare_trips(1); !met) return std::unexpected(met.error());
    const Instant start = steady_now();
    if (const Status done = body(); !done) return std::unexpected(done.error());
    return to_seconds(steady_now() - start);
  }

  Status bare_trips(std::uint64_t trips) {
    return first_ ? bare_ping(bare_.ping, trips) : bare_pong(bare_.ping, trips);
  }
  Status trips_of(BenchEnd& end, std::uint64_t trips) { return first_ ? end.ping(trips) : end.pong(trips); }

  Status copy_bare() {
    const Status copied =
        first_ ? bare_send(bare_.streams, plan_.copy, memory_) : bare_receive(bare_.streams, plan_.copy, memory_);
    return copied ? bare_trips(1) : copied;
  }

  Status copy(BenchEnd& end) {
    HostRegion ring(memory_.data(), memory_.size());
    const Status copied = first_ ? end.send(plan_.copy, ring) : end.receive(plan_.copy, ring);
    return copied ? trips_of(end, 1) : copied;
  }

  void report(const Json& object) {
    if (first_) parent_.send(json_text(object));
  }

  const LinkPlan plan_;
  const bool first_;
  const BareEnds& bare_;
  LineChannel& parent_;
  Bytes memory_;
  std::unique_ptr<BenchEnd> plain_, checked_;  // go first: they use the memory above
};

Settings bench_settings(Settings settings, std::uint64_t paths, bool first) {
  settings.nics.clear();
  for (std::uint64_t nic = 0; nic < paths; ++nic) settings.nics.push_back(to_text(bench_address(nic)));
  settings.server = first ? 0 : 1;
  return settings;
}

Status start_both(Children& children, const LinkPlan& plan, const Settings& settings) {
  const auto ends = connect_all(plan.options.paths);
  if (!ends) return std::unexpected(ends.error());
  for (const bool first : {true, false}) {
    const Status started = children.start([&, first](LineChannel& parent) {
      return run_reporting(parent, [&]() -> Status {
        const Settings mine = bench_settings(settings, plan.options.paths, first);
        auto process = BenchProcess::create(plan, mine, first, first ? ends->first : ends->second, parent);
        if (!process) return std::unexpected(process.error());
        return (*process)->run();
      });
    });
    if (!started) return started;
  }
  return {};
}

Result<BenchSamples> measure(const LinkPlan& plan, const Settings& settings, Console& console) {
  const Instant deadline = steady_now() + kWorkMax;
  Children children;
  if (const Status started = start_both(children, plan, settings); !started) return std::unexpected(started.error());
  for (int job = 0; job < 2; ++job) {
    if (const Status passed = pass_id(children, deadline); !passed) return std::unexpected(passed.error());
  }
  BenchSamples samples;
  const std::uint64_t steps = 2 * plan.options.rounds + 1;
  for (std::uint64_t step = 0; step < steps; ++step) {
    console.progress(fmt::format("measuring: {} of {}", step + 1, steps));
    const Result<Json> report = next_report(children, 0, deadline);
    if (!report) {
      console.progress("");
      return std::unexpected(report.error());
    }
    samples.add(*report);
  }
  console.progress("");
  const Result<Json> other = next_report(children, 1, deadline);
  if (!other) return std::unexpected(other.error());
  samples.add(*other);
  children.join(steady_now() + 2 * Process::kFinishMax);
  return samples;
}

Result<int> run(const BenchLinkOptions& options, const Context& context) {
  const Result<Settings> settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  const Result<BenchSamples> samples = measure(make_plan(options), *settings, context.console);
  if (!samples) return std::unexpected(samples.error());
  const BenchSummary summary = summarize(*samples);
  context.console.out(options.json ? summary_json(summary) : summary_text(summary, options, context.console));
  return kExitOk;
}

}  // namespace

void add_bench_link(Command& app, const Context& context) {
  constexpr std::uint64_t kMegabyte = 1 << 20;
  const auto options = std::make_shared<BenchLinkOptions>();
  Command command = app.add("bench-link", "Measure the transport beside bare sockets, on loopback");
  command.runs([options, context] { return run(*options, context); });
  command.integer({"--paths", 1, kBarePathsMax, "NICs at each end, and bare sockets; 4 by default"}, options->paths);
  command.bytes({"--bytes", 1, kMegabyte * kMegabyte, "how much each way of sending moves in all; 1G by default"},
                options->bytes);
  command.bytes({"--message", 1, 256 * kMegabyte, "bytes of a message; 4M by default"}, options->message_bytes);
  command.integer({"--roundtrips", 1, 100'000'000, "8-byte round trips in all; 20000 by default"}, options->roundtrips);
  command.integer({"--rounds", 1, 1000, "alternations between ours and bare; 5 by default"}, options->rounds);
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
