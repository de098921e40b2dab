#include "apps/r2ccl/soak/soak_rank.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "apps/r2ccl/common/rank_job.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kTellEvery = 1s;

// The longest pause between two chunks that a collective was given; it listens while it lives. on_event() comes from
// whoever drives the engine.
class StallWatch final : public EventListener {
 public:
  explicit StallWatch(Comm& comm) : comm_(comm) {
    comm_.inspect([&](const Engine&, Telemetry& telemetry) { telemetry.set_listener(this); });
  }
  ~StallWatch() override {
    comm_.inspect([](const Engine&, Telemetry& telemetry) { telemetry.set_listener(nullptr); });
  }
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  void on_event(const Event& event) override {
    if (event.kind != EventKind::kChunkPlaced) return;
    const Duration::rep at = event.at.time_since_epoch().count();
    const Duration::rep since = last_.exchange(at);
    worst_ = std::max<Duration::rep>(worst_, at - since);
  }
  void begin() { last_ = steady_now().time_since_epoch().count(); }
  Duration worst() const { return Duration(worst_.load()); }

 private:
  Comm& comm_;
  std::atomic<Duration::rep> last_ = steady_now().time_since_epoch().count();
  std::atomic<Duration::rep> worst_ = 0;
};

// What this process holds of something that must not grow.
struct Held {
  std::uint64_t first_half = 0, second_half = 0;
  void note(std::uint64_t now, bool second) {
    std::uint64_t& most = second ? second_half : first_half;
    most = std::max(most, now);
  }
  std::uint64_t growth() const { return second_half > first_half ? second_half - first_half : 0; }
};

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

class SoakRank final {
 public:
  SoakRank(const SoakPlan& plan, Comm& comm, Console& console)
      : plan_(plan), comm_(comm), side_(comm), calls_(comm), console_(console), random_(plan.seed) {}

  Result<SoakFigures> run() {
    for (const FaultSpec& fault : soak_faults(plan_)) faults_.push_back(fault.at.time);
    use_all_memory();
    if (const Status ready = side_.barrier(); !ready) return std::unexpected(ready.error());
    StallWatch stalls(comm_);
    const Instant start = steady_now();
    Instant tell_next = start;
    for (;;) {
      // Rank 0 says when it is over, so that all stop at the same collective.
      const auto more = side_.max(comm_.rank() == 0 && steady_now() - start < plan_.length ? 1 : 0);
      if (!more) return std::unexpected(more.error());
      if (*more == 0) break;
      if (const Status checked = one_collective(stalls); !checked) return std::unexpected(checked.error());
      const Duration elapsed = steady_now() - start;
      if (start + elapsed < tell_next) continue;
      tell_next += kTellEvery;
      note_held(elapsed);
      tell(elapsed);
    }
    note_held(plan_.length);
    tell_over();
    return all_ranks(stalls, steady_now() - start);
  }

 private:
  // Uses all memory that a run can need, so that growth in the second half is not that of a first large collective.
  void use_all_memory() {
    PerfCase one;
    one.collective = find_collective("all_reduce").value();
    one.count = kSoakBytesMax;
    one.type = DataType::kUint8;
    one.rank = comm_.rank();
    one.ranks = comm_.size();
    PerfData data(one.type, one.op.name, one.ranks);
    calls_.prepare(one);
    calls_.fill(one, data);
  }

  Status one_collective(StallWatch& stalls) {
    const PerfCase one = soak_case(random_, comm_.rank(), comm_.size());
    PerfData data(one.type, one.op.name, one.ranks);
    calls_.prepare(one);
    calls_.fill(one, data);
    const auto took = calls_.run(one, [&] { stalls.begin(); });
    if (!took) return std::unexpected(took.error());
    figures_.wrong += calls_.wrong(one, data);
    ++figures_.operations;
    figures_.bytes += bytes_of(*one.collective, one.count, size_of(one.type), one.ranks);
    return {};
  }

  void note_held(Duration elapsed) {
    const bool second = elapsed >= plan_.length / 2;
    rss_.note(resident_bytes(), second);
    files_.note(open_files(), second);
  }

  std::uint64_t faults_until(Duration elapsed) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(faults_, [&](Duration at) { return at <= elapsed; }));
  }

  void tell(Duration elapsed) {
    if (comm_.rank() != 0 || !console_.err_is_terminal()) return;
    console_.err(fmt::format("\r{:.0f} of {:.0f} s: {} collectives, {} faults, {} wrong  ", to_seconds(elapsed),
                             to_seconds(plan_.length), figures_.operations, faults_until(elapsed), figures_.wrong));
  }
  void tell_over() {
    if (comm_.rank() == 0 && console_.err_is_terminal()) console_.err("\r\033[K");
  }

  Result<SoakFigures> all_ranks(const StallWatch& stalls, Duration elapsed) {
    const auto wrong = side_.sum(figures_.wrong);
    const auto worst_stall = side_.max(static_cast<std::uint64_t>(stalls.worst().count()));
    const auto rss_growth = side_.max(rss_.growth());
    const auto fd_growth = side_.max(files_.growth());
    for (const auto* told : {&wrong, &worst_stall, &rss_growth, &fd_growth}) {
      if (!*told) return std::unexpected(told->error());
    }
    SoakFigures all = figures_;
    all.wrong = *wrong;
    all.worst_stall_ms = static_cast<double>(*worst_stall) * 1e-6;
    all.rss_growth_bytes = *rss_growth;
    all.fd_growth = *fd_growth;
    all.faults = faults_until(elapsed);
    all.seconds = to_seconds(elapsed);
    return all;
  }

  const SoakPlan& plan_;
  Comm& comm_;
  Side side_;
  CheckedCalls calls_;
  Console& console_;
  SeededRandom random_;
  std::vector<Duration> faults_;  // when they begin
  SoakFigures figures_;           // of this rank
  Held rss_, files_;
};

}  // namespace

Result<SoakFigures> run_soak_rank(const SoakPlan& plan, const Launched& launch, const Settings& settings,
                                  Console& console) {
  const auto seat = seat_of(launch);
  if (!seat) return std::unexpected(seat.error());
  const auto job = join_job(*seat, settings, {});
  if (!job) return std::unexpected(job.error());
  const Result<SoakFigures> figures = SoakRank(plan, *job->comm, console).run();
  // Whatever a communicator ends with, the command line was good.
  if (!figures) return fail(Fault::kPeerDown, figures.error().what);
  if (const Status ended = job->comm->finalize(); !ended) return std::unexpected(ended.error());
  return figures;
}

}  // namespace r2ccl::apps
