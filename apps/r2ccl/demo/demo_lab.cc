#include "apps/r2ccl/demo/demo_lab.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/lab/lab_run.h"

namespace r2ccl::apps {
namespace {

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Waits for the other process's end. A signal meant for the demo does not end it.
[[noreturn]] void keep(const lab::LabPlan& plan, lab::StateFile& file, int other) {
  char byte = 0;
  while (::read(other, &byte, 1) < 0 && errno == EINTR) continue;
  _exit(remove_lab(plan, file) ? kExitOk : kExitFailed);
}

}  // namespace

Result<std::unique_ptr<DemoLab>> DemoLab::make(const DemoPlan& plan) {
  if (::geteuid() != 0) return fail(Fault::kMisuse, "real interfaces need root");
  const lab::LabPlan cluster = lab_plan(plan);
  if (const Status checked = lab::check(cluster); !checked) return std::unexpected(checked.error());
  // From the file on until the keeper is there, a signal waits.
  const sigset_t signals = end_signals();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  auto file = claim_lab(cluster, false);
  std::unique_ptr<DemoLab> made(new DemoLab(plan));
  const Status started = file ? made->start_keeper(*file) : std::unexpected(file.error());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return std::unexpected(started.error());
  if (const Status built = lab::build(cluster); !built) return std::unexpected(built.error());
  auto opened = lab::BuiltLab::open(cluster);
  if (!opened) return std::unexpected(opened.error());
  made->cluster_ = std::make_unique<lab::BuiltLab>(std::move(*opened));
  made->clock_ = std::make_unique<lab::FaultClock>(plan.faults, made->cluster_->healthy());
  return made;
}

DemoLab::~DemoLab() {
  finish();
}

Status DemoLab::start_keeper(lab::StateFile& file) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Fault::kBusy, fmt::format("no socket pair: {}", std::generic_category().message(errno)));
  const Fd its_end(ends[0]);
  alive_ = Fd(ends[1]);
  keeper_ = ::fork();
  if (keeper_ == 0) {
    ::setpgid(0, 0);  // what ends the demo's group does not end the keeper
    alive_.reset();
    keep(lab_plan(plan_), file, its_end.get());
  }
  if (keeper_ > 0) return {};
  const Status removed = file.remove();
  return removed ? fail(Fault::kBusy, "no new process for the lab's keeper") : removed;
}

Result<std::vector<DemoLab::Change>> DemoLab::step(Instant start, Instant now) {
  const Duration elapsed = now - start;
  for (const lab::NicChange& change : clock_->step(elapsed)) {
    if (const Status set = cluster_->set(change.server, change.nic, change.state); !set)
      return std::unexpected(set.error());
    if (!change.reset) continue;
    if (const auto reset = cluster_->reset(change.server, change.nic); !reset) return std::unexpected(reset.error());
  }
  std::vector<Change> changes;
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const FaultSpec& fault = plan_.faults[i];
    if (!begun_[i] && elapsed >= fault.at.time) {
      begun_[i] = true;
      changes.push_back({i, true, now});
    }
    const bool ends = fault.lasting > Duration::zero() && fault.kind != FaultKind::kReset;
    if (ends && !over_[i] && elapsed >= fault.at.time + fault.lasting) {
      over_[i] = true;
      changes.push_back({i, false, now});
    }
  }
  return changes;
}

Instant DemoLab::next(Instant start) const {
  const Duration next = clock_->next();
  return next == Duration::max() ? kNever : start + next;
}

bool DemoLab::finish() {
  alive_.reset();
  if (keeper_ <= 0) return true;
  int status = 0;
  while (::waitpid(keeper_, &status, 0) < 0 && errno == EINTR) continue;
  keeper_ = 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == kExitOk;
}

}  // namespace r2ccl::apps
