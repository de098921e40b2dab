#include "lab/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace r2ccl::lab {
namespace {

constexpr const char* kFolder = "/run/r2ccl-lab";
constexpr Duration kLockPause = 20ms;

std::string path_of(const std::string& name) {
  return fmt::format("{}/{}", kFolder, name);
}

std::unexpected<Error> broken(std::string_view what, const std::string& where) {
  return fail(Fault::kBusy, fmt::format("can not {} {}: {}", what, where, std::generic_category().message(errno)));
}

// Held while a file appears or is taken, so that nobody takes one that is half made.
Result<Fd> lock_folder() {
  if (::mkdir(kFolder, 0755) != 0 && errno != EEXIST) return broken("make the folder", kFolder);
  Fd folder(::open(kFolder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::flock(folder.get(), LOCK_EX) != 0) return broken("lock", kFolder);
  return folder;
}

Result<std::string> contents(int fd, const std::string& path) {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), 0);
  if (count < 0) return broken("read", path);
  return std::string(bytes.data(), static_cast<std::size_t>(count));
}

Result<LabState> parse_file(int fd, const std::string& path) {
  const auto text = contents(fd, path);
  if (!text) return std::unexpected(text.error());
  auto state = parse_state(*text);
  if (!state) return fail(Fault::kBusy, fmt::format("{} is damaged: {}", path, state.error().what));
  return state;
}

std::unexpected<Error> no_lab(const std::string& name) {
  return fail(Fault::kMisuse, fmt::format("there is no lab '{}'", name));
}

}  // namespace

Result<StateFile> StateFile::create(const LabState& state) {
  const std::string path = path_of(state.plan.name);
  const auto folder = lock_folder();
  if (!folder) return std::unexpected(folder.error());
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd && errno == EEXIST) {
    return fail(Fault::kMisuse,
                fmt::format("there is a lab '{0}' already; 'r2ccl lab down --name {0}' removes it", state.plan.name));
  }
  if (!fd) return broken("make", path);
  StateFile file(std::move(fd), path);
  const std::string text = to_text(state);
  if (::flock(file.fd_.get(), LOCK_EX | LOCK_NB) == 0 &&
      ::write(file.fd_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return file;
  const auto failure = broken("write", path);
  ::unlink(path.c_str());
  return failure;
}

Result<StateFile> StateFile::take(const std::string& name, Duration within) {
  const std::string path = path_of(name);
  for (Duration waited{};; waited += kLockPause) {
    {
      const auto folder = lock_folder();
      if (!folder) return std::unexpected(folder.error());
      Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (!fd) return errno == ENOENT ? no_lab(name) : broken("open", path);
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return StateFile(std::move(fd), path);
    }
    if (waited >= within) break;
    ::poll(nullptr, 0, static_cast<int>(to_ms(kLockPause)));
  }
  const auto state = read_state(name);
  return fail(Fault::kBusy,
              fmt::format("lab '{}' is in use by process {}; end that first", name, state ? state->process : 0));
}

Result<std::optional<LabState>> StateFile::read() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) == 0 && status.st_size == 0) return std::nullopt;
  return parse_file(fd_.get(), path_);
}

Status StateFile::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return broken("remove", path_);
  return {};
}

std::vector<std::string> lab_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

bool lab_exists(const std::string& name) {
  return ::access(path_of(name).c_str(), F_OK) == 0;
}

Result<LabState> read_state(const std::string& name) {
  const Fd fd(::open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno == ENOENT ? no_lab(name) : broken("open", path_of(name));
  return parse_file(fd.get(), path_of(name));
}

}  // namespace r2ccl::lab
