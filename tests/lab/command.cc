#include "tests/lab/command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace r2ccl::lab_tests {
namespace {

constexpr int kRanksMs = 20'000;

int status_of(int raw) {
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

const std::string& tool_path() {
  static const std::string path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "r2ccl";
  return path;
}

Ran tool(const std::string& arguments) {
  return shell(fmt::format("{} {}", tool_path(), arguments));
}

std::vector<std::string> traces(const std::string& lab) {
  const std::string prefix = fmt::format("r2ccl-{}-", lab);
  std::vector<std::string> found;
  for (const std::string& name : names_in("/run/netns")) {
    if (name.starts_with(prefix)) found.push_back("namespace " + name);
  }
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(prefix) != std::string::npos) found.push_back("mount " + line);
  }
  for (const std::string& name : names_in("/run/r2ccl-lab")) {
    if (name == lab) found.push_back("state " + name);
  }
  for (const std::string& name : names_in("/sys/class/net")) found.push_back("interface " + name);
  std::ranges::sort(found);
  return found;
}

std::string fresh_name() {
  static int count = 0;
  return fmt::format("test{}-{}", ::getpid(), ++count);
}

Lab::Lab(const std::string& options) : name_(fresh_name()), before_(traces(name_)) {
  const Ran ran = tool(fmt::format("lab up --name {} {} 2>&1", name_, options));
  EXPECT_EQ(ran.status, 0) << ran.out;
}

Lab::~Lab() {
  command("down");
  EXPECT_EQ(traces(name_), before_);
}

void Lab::command(const std::string& word, const std::string& rest) const {
  const Ran ran = tool(fmt::format("lab {} --name {} {} 2>&1", word, name_, rest));
  EXPECT_EQ(ran.status, 0) << word << ' ' << rest << ": " << ran.out;
}

apps::Json Lab::nic(int server, int nic) const {
  const Ran ran = tool(fmt::format("lab status --name {} --json", name_));
  const auto object = apps::parse_json(ran.out);
  EXPECT_TRUE(object.is_object()) << ran.out;
  if (!object.is_object()) return {};
  for (const auto& one : object["labs"][0]["nics"]) {
    if (one["server"] == server && one["nic"] == nic) return one;
  }
  return {};
}

LongRun::LongRun(const std::string& name) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  const char* program = tool_path().c_str();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(program, program, "lab", "run", "--name", name.c_str(), "--servers", "2", "--nics", "1", "--", "sh", "-c",
            "echo r; exec sleep 1000", nullptr);
    _exit(127);
  }
  ::setpgid(pid_, pid_);
  ::close(ends[1]);
  int ranks = 0;
  pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
  for (char byte = 0; ranks < 2 && ::poll(&entry, 1, kRanksMs) == 1 && ::read(ends[0], &byte, 1) == 1;)
    ranks += byte == 'r';
  ::close(ends[0]);
  ranks_run_ = ranks == 2;
}

LongRun::~LongRun() {
  if (pid_ <= 0) return;
  signal(SIGTERM);
  wait();
}

void LongRun::signal(int number) const {
  ::kill(pid_, number);
}
void LongRun::signal_all(int number) const {
  ::kill(-pid_, number);
}

int LongRun::wait() {
  int raw = 0;
  ::waitpid(pid_, &raw, 0);
  pid_ = 0;
  return status_of(raw);
}

}  // namespace r2ccl::lab_tests
