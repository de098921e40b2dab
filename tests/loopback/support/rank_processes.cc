#include "tests/loopback/support/rank_processes.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace r2ccl::loopback {
namespace {

// A port that was free a moment ago, at the address of the first server.
Address free_place() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, "127.10.0.1", &address.sin_addr);
  socklen_t length = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("no free port");
  ::close(fd);
  return Address::v4(127, 10, 0, 1, ntohs(address.sin_port));
}

void run_rank(const RanksPlan& plan, std::uint32_t rank, const Address& place, const RankProcesses::Body& body,
              const RankProcesses::Tell& tell) {
  try {
    const auto world = make_world(settings_of(plan, rank), MeetingPlace{to_text(place), {place}, false});
    auto id = world->fixed_id(rank == 0);
    if (!id) return tell("error: " + id.error().what);
    auto comm = world->join(*id, rank, plan.ranks, plan.config).value();
    if (const Status joined = comm->wait_joined(); !joined) return tell("error: " + joined.error().what);
    body(*comm, *world, tell);
  } catch (const std::exception& error) {
    tell(std::string("error: ") + error.what());
  }
}

}  // namespace

RankProcesses::RankProcesses(const RanksPlan& plan, const Body& body)
    : RankProcesses(plan.ranks, [&](std::uint32_t rank, const Address& place, const Tell& tell) {
        run_rank(plan, rank, place, body, tell);
      }) {}

RankProcesses::RankProcesses(std::uint32_t ranks, const Program& program) {
  const Address place = free_place();
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      program(rank, place, [&](const std::string& line) {
        const std::string whole = line + "\n";
        if (::write(ends[1], whole.data(), whole.size()) < 0) ::_exit(2);
      });
      std::fflush(nullptr);
      ::_exit(0);
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0], {}});
  }
}

RankProcesses::~RankProcesses() {
  for (const Child& child : children_) {
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    ::close(child.pipe);
  }
}

void RankProcesses::kill(std::uint32_t rank, int signal) {
  ::kill(children_[rank].pid, signal);
}

std::string RankProcesses::next_line(std::uint32_t rank, Duration within) {
  Child& child = children_[rank];
  const auto deadline = std::chrono::steady_clock::now() + within;
  for (;;) {
    if (const auto end = child.read.find('\n'); end != std::string::npos) {
      std::string line = child.read.substr(0, end);
      child.read.erase(0, end + 1);
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{child.pipe, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) return {};
    char buffer[512];
    const ssize_t got = ::read(child.pipe, buffer, sizeof buffer);
    if (got <= 0) return {};
    child.read.append(buffer, static_cast<std::size_t>(got));
  }
}

LogFiles::LogFiles() : folder_((std::filesystem::temp_directory_path() / "r2ccl_test.XXXXXX").string()) {
  if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder for logs");
}

LogFiles::~LogFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string LogFiles::setting() const {
  return "NCCL_DEBUG_FILE=" + folder_ + "/%p";
}

std::string LogFiles::text() const {
  std::stringstream all;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    std::ifstream one(file.path());
    if (one.peek() != std::ifstream::traits_type::eof()) all << one.rdbuf();
  }
  return all.str();
}

}  // namespace r2ccl::loopback
