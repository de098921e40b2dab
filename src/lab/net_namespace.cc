#include "lab/net_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/assert.h"
#include "base/units.h"

namespace r2ccl::lab {
namespace {

constexpr const char* kFolder = "/run/netns";
constexpr const char* kOwn = "/proc/thread-self/ns/net";

std::string path_of(const std::string& name) {
  return fmt::format("{}/{}", kFolder, name);
}

std::unexpected<Error> broken(std::string_view what, const std::string& where) {
  return fail(Fault::kBusy, fmt::format("{} {}: {}", what, where, std::generic_category().message(errno)));
}

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// Everybody who is in the namespace and is not this process.
std::vector<pid_t> processes_in(const Fd& name_space) {
  struct stat status{};
  if (::fstat(name_space.get(), &status) != 0) return {};
  const FileId wanted{status.st_dev, status.st_ino};
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const Result<std::uint64_t> pid = parse_integer(entry.path().filename().string());
    if (!pid || static_cast<pid_t>(*pid) == ::getpid()) continue;
    if (::stat((entry.path() / "ns" / "net").c_str(), &status) != 0) continue;
    if (FileId{status.st_dev, status.st_ino} == wanted) found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

// A file of its own over /etc/hosts, in this process's view of the files; it goes with the last who has that view.
Status show_hosts(const std::string& text) {
  char path[] = "/tmp/r2ccl-hosts-XXXXXX";
  const Fd file(::mkostemp(path, O_CLOEXEC));
  if (!file) return broken("can not make the file", path);
  // A process that was started inside a lab has such a file over /etc/hosts already. That file has no name any more,
  // and nothing can be mounted over such a file.
  constexpr const char* kHosts = "/etc/hosts";
  const auto cover = [&] { return ::mount(path, kHosts, "none", MS_BIND, nullptr) == 0; };
  Status shown;
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fchmod(file.get(), 0644) != 0) {
    shown = broken("can not write the file", path);
  } else if (!cover() && (errno != ENOENT || ::umount2(kHosts, MNT_DETACH) != 0 || !cover())) {
    shown = broken("can not show the names of a lab at", kHosts);
  }
  ::unlink(path);
  return shown;
}

}  // namespace

bool namespace_exists(const std::string& name) {
  return ::access(path_of(name).c_str(), F_OK) == 0;
}

Status make_namespace(const std::string& name) {
  const std::string path = path_of(name);
  if (::mkdir(kFolder, 0755) != 0 && errno != EEXIST) return broken("can not make the folder", kFolder);
  const Fd before(::open(kOwn, O_RDONLY | O_CLOEXEC));
  if (!before) return broken("can not open", kOwn);
  const Fd file(::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  if (!file && errno == EEXIST) return fail(Fault::kMisuse, fmt::format("a namespace {} is there already", name));
  if (!file) return broken("can not make the file", path);
  if (::unshare(CLONE_NEWNET) != 0) {
    const auto failure = broken("can not make the namespace", name);
    ::unlink(path.c_str());
    return failure;
  }
  Status made;
  if (::mount(kOwn, path.c_str(), "none", MS_BIND, nullptr) != 0) {
    made = broken("can not keep the namespace at", path);
    ::unlink(path.c_str());
  }
  R2CCL_ASSERT(::setns(before.get(), CLONE_NEWNET) == 0, "the way back from a new namespace");
  return made;
}

Result<Fd> open_namespace(const std::string& name) {
  Fd fd(::open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return broken("can not open the namespace", name);
  return fd;
}

bool is_namespace(const Fd& file) {
  struct statfs status{};
  return ::fstatfs(file.get(), &status) == 0 && status.f_type == NSFS_MAGIC;
}

Status remove_namespace(const std::string& name) {
  const std::string path = path_of(name);
  // A run that died early leaves a plain file, on which nothing is mounted.
  if (::umount2(path.c_str(), MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT)
    return broken("can not unmount", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return broken("can not remove", path);
  return {};
}

Status inside(const Fd& name_space, const std::function<Status()>& body) {
  const Fd before(::open(kOwn, O_RDONLY | O_CLOEXEC));
  if (!before) return broken("can not open", kOwn);
  if (::setns(name_space.get(), CLONE_NEWNET) != 0) return broken("can not enter", "a namespace");
  const Status done = body();
  R2CCL_ASSERT(::setns(before.get(), CLONE_NEWNET) == 0, "the way back from a namespace");
  return done;
}

Status move_into(const Fd& name_space, const std::string& hosts) {
  if (::setns(name_space.get(), CLONE_NEWNET) != 0) return broken("can not enter", "a namespace");
  // /sys shows the interfaces of the namespace it was mounted in; nobody else must see the one mounted here.
  if (::unshare(CLONE_NEWNS) != 0) return broken("can not unshare", "mounts");
  if (::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return broken("can not unshare", "mounts");
  if (::umount2("/sys", MNT_DETACH) != 0 && errno != EINVAL) return broken("can not unmount", "/sys");
  if (::mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0) return broken("can not mount", "/sys");
  return hosts.empty() ? Status{} : show_hosts(hosts);
}

Status end_processes(const Fd& name_space) {
  // What is killed may have just forked, so once more.
  for (int round = 0; round < 3; ++round) {
    const std::vector<pid_t> processes = processes_in(name_space);
    if (processes.empty()) return {};
    std::vector<Fd> handles;
    std::vector<pollfd> entries;
    for (const pid_t process : processes) {
      Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
      if (!handle) continue;  // has ended
      ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0);
      entries.push_back({.fd = handle.get(), .events = POLLIN, .revents = 0});
      handles.push_back(std::move(handle));
    }
    for (pollfd& entry : entries) {
      if (::poll(&entry, 1, static_cast<int>(to_ms(kProcessEndMax)) / static_cast<int>(entries.size())) == 0)
        return fail(Fault::kBusy, "a process inside does not end, though it was killed");
    }
  }
  return {};
}

}  // namespace r2ccl::lab
