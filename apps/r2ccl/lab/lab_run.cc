#include "apps/r2ccl/lab/lab_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/r2ccl/common/become.h"
#include "apps/r2ccl/lab/lab_faults.h"
#include "apps/r2ccl/run/run_children.h"
#include "lab/built_lab.h"
#include "lab/net_namespace.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kKeeperMax = 60s;
constexpr int kEndSignals[] = {SIGINT, SIGTERM, SIGHUP};

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEndSignals) sigaddset(&set, signal);
  return set;
}

// The kernel's words for what it said last.
std::string reason() {
  return std::generic_category().message(errno);
}

// The process that removes the lab. It learns from a socket that the other process has ended, however that came.
class Keeper final {
 public:
  Keeper() = default;
  ~Keeper() { finish(); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  Status start(const lab::LabPlan& plan, const std::vector<FaultSpec>& faults, lab::StateFile& file, Console& console) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return fail(Fault::kBusy, fmt::format("no pair of sockets: {}", reason()));
    const Fd its_end(ends[0]);
    go_ = Fd(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) return fail(Fault::kBusy, fmt::format("no new process: {}", reason()));
    if (pid_ == 0) {
      go_.reset();
      _exit(keep(plan, faults, file, its_end.get(), console));
    }
    return {};
  }

  // The lab stands: the clock of the faults begins.
  void go() const { ::send(go_.get(), "g", 1, MSG_NOSIGNAL); }

  // Lets it remove the lab and waits for that. False when it could not, or not in time.
  bool finish() {
    go_.reset();
    if (pid_ <= 0) return true;
    const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd entry{.fd = handle.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(to_ms(kKeeperMax))) != 1) return false;
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == kExitOk;
  }

 private:
  static int keep(const lab::LabPlan& plan, const std::vector<FaultSpec>& faults, lab::StateFile& file, int other,
                  Console& console) {
    Status done;
    try {
      char byte = 0;
      if (::read(other, &byte, 1) == 1) done = drive(plan, faults, other, console);
    } catch (const std::exception& error) {
      done = fail(Fault::kBug, error.what());
    }
    if (!done) console.error("r2ccl lab run", done.error().what);
    const Status removed = remove_lab(plan, file);
    if (!removed) console.error("r2ccl lab run", removed.error().what);
    return done && removed ? kExitOk : kExitFailed;
  }

  static Status drive(const lab::LabPlan& plan, const std::vector<FaultSpec>& faults, int other, Console& console) {
    auto cluster = lab::BuiltLab::open(plan);
    if (!cluster) return std::unexpected(cluster.error());
    lab::FaultClock clock(faults, cluster->healthy());
    if (drive_faults(*cluster, clock, other, Afterwards::kWait, console)) return {};
    return fail(Fault::kBusy, "not every fault was made");
  }

  Fd go_;
  pid_t pid_ = 0;
};

// Removes what a killed run of that name has left.
Status remove_leftover(const std::string& name) {
  const auto there = lab::read_state(name);
  if (!there || there->kept) return {};
  auto left = lab::StateFile::take(name, 0s);
  if (!left) return std::unexpected(left.error());
  return remove_lab(there->plan, *left);
}

int run_rank(const LabRunOptions& options, const RunMeeting& meeting, std::uint32_t rank, Console& console) {
  const sigset_t signals = end_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const Error error =
      become_in_lab(options.lab, rank / options.plan.ranks, options.program, lab_environment(options, meeting, rank));
  console.error("r2ccl lab run", error.what);
  return kExitNoProgram;
}

}  // namespace

std::vector<std::string> lab_environment(const LabRunOptions& options, const RunMeeting& meeting, std::uint32_t rank) {
  RunPlan plan = options.plan;
  plan.faults.clear();
  plan.fabric = options.lab.fabric == Fabric::kRails ? "rails" : "routed";
  std::vector<std::string> nics;
  for (std::uint64_t nic = 0; nic < plan.nics; ++nic) nics.push_back(lab::nic_name(nic));
  std::vector<std::string> lines = rank_environment(plan, meeting, rank);
  for (std::string& line : lines) {
    if (line.starts_with("R2CCL_NICS=")) line = fmt::format("R2CCL_NICS={}", fmt::join(nics, ","));
    if (line.starts_with("MASTER_ADDR=")) line = "MASTER_ADDR=" + to_text(lab::nic_address(options.lab, 0, 0));
  }
  lines.push_back("R2CCL_STATS=" + stats_directory(options.lab));
  lines.push_back(nic_speed_line(options.lab));
  return lines;
}

std::string nic_speed_line(const lab::LabPlan& plan) {
  return fmt::format("R2CCL_NIC_SPEED={}bit", plan.rate_bytes_s * 8);
}

Error become_in_lab(const lab::LabPlan& plan, std::uint64_t server, const std::vector<std::string>& program,
                    const std::vector<std::string>& environment) {
  const auto name_space = lab::open_namespace(lab::server_namespace(plan, server));
  if (!name_space) return name_space.error();
  if (const Status moved = lab::move_into(*name_space, lab::host_names(plan)); !moved) return moved.error();
  return become(program, environment);
}

Status remove_lab(const lab::LabPlan& plan, lab::StateFile& file) {
  // The file stays when something else does: then it can be tried again.
  if (const Status removed = lab::tear_down(plan); !removed) return removed;
  std::error_code ignored;  // only pages of processes that have ended are in it
  std::filesystem::remove_all(stats_directory(plan), ignored);
  return file.remove();
}

Result<lab::StateFile> claim_lab(const lab::LabPlan& plan, bool kept) {
  if (const Status removed = remove_leftover(plan.name); !removed) return std::unexpected(removed.error());
  // This is checked before there is a file, because whoever finds the file may remove what it names.
  if (!lab::lab_exists(plan.name)) {
    if (const Status free = lab::check_free(plan); !free) return std::unexpected(free.error());
  }
  return lab::StateFile::create({.plan = plan, .process = static_cast<std::uint64_t>(::getpid()), .kept = kept});
}

Result<int> run_in_lab(const LabRunOptions& options, const Context& context) {
  const auto faults = lab_faults(options.plan.faults, options.lab);
  if (!faults) return std::unexpected(faults.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  // Until the ranks run, a signal that ends the job waits; run_children() finds it.
  const sigset_t signals = end_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto file = claim_lab(options.lab, false);
  if (!file) return std::unexpected(file.error());
  Keeper keeper;
  if (const Status started = keeper.start(options.lab, *faults, *file, context.console); !started) {
    const Status removed = file->remove();
    return std::unexpected((removed ? started : removed).error());
  }
  if (const Status built = lab::build(options.lab); !built) return std::unexpected(built.error());
  keeper.go();
  const Result<int> status = run_children(
      options.plan.size(), [&](std::uint32_t rank) { return run_rank(options, *meeting, rank, context.console); });
  if (keeper.finish() || !status) return status;
  if (lab::lab_exists(options.lab.name)) {
    context.console.error("r2ccl lab run",
                          fmt::format("something is left; 'r2ccl lab down --name {}' removes it", options.lab.name));
  }
  return *status == kExitOk ? kExitFailed : *status;
}

}  // namespace r2ccl::apps
