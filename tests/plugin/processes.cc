#include "tests/plugin/processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace r2ccl::plugin {
namespace {

constexpr Duration kPatience = 30s;

std::string nics_of(int server, int count) {
  std::string list;
  for (int i = 0; i < count; ++i)
    list += (i == 0 ? "" : ",") + std::string("127.2") + std::to_string(i) + ".0." + std::to_string(server + 1);
  return list;
}

[[noreturn]] void play(const PairOptions& options, int number, int fd, const Part& part) {
  ::alarm(120);
  ::setenv("R2CCL_NICS", nics_of(number, options.nics).c_str(), 1);
  ::setenv("R2CCL_SERVER", std::to_string(number).c_str(), 1);
  for (const auto& [name, value] : options.both) ::setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : number == 0 ? options.first : options.second)
    ::setenv(name.c_str(), value.c_str(), 1);
  const auto net = Net::load(options.version);
  expect(net != nullptr, "the plugin can not be loaded");
  expect_ok(net->init(), "init");
  Line line(fd);
  part(*net, line);
  expect_ok(net->finalize(), "finalize");
  ::fflush(nullptr);
  std::exit(0);  // as programs end: what the library does at the end is part of the test
}

}  // namespace

void Line::put_bytes(const void* data, std::size_t bytes) {
  if (::send(fd_, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) fail_part("the line is broken");
}

void Line::get_bytes(void* data, std::size_t bytes) {
  if (::recv(fd_, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) fail_part("the line is broken");
}

void fail_part(const std::string& why) {
  for (const std::string& line : logged()) std::fprintf(stderr, "    %s\n", line.c_str());
  std::fprintf(stderr, "process %d: %s\n", static_cast<int>(::getpid()), why.c_str());
  std::fflush(nullptr);
  ::_exit(1);
}

std::string run_pair(const PairOptions& options, const Part& first, const Part& second) {
  std::array<int, 2> line{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, line.data()) != 0) return "no line";
  std::array<pid_t, 2> children{};
  for (std::size_t i = 0; i < 2; ++i) {
    children[i] = ::fork();
    if (children[i] != 0) continue;
    ::close(line[1 - i]);
    play(options, static_cast<int>(i), line[i], i == 0 ? first : second);
  }
  ::close(line[0]), ::close(line[1]);
  std::string why;
  for (std::size_t i = 0; i < 2; ++i) {
    int status = 0;
    ::waitpid(children[i], &status, 0);
    if (i == 1 && options.second_is_killed) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      why += "process " + std::to_string(i) + " ended with " + std::to_string(status) + "; ";
  }
  return why;
}

Instant now() {
  return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

void* connect_to(Net& net, Net::Handle handle) {
  void* sender = nullptr;
  for (const Instant until = now() + kPatience; sender == nullptr && now() < until;) {
    expect_ok(net.connect(handle, &sender), "connect");
    if (sender == nullptr) std::this_thread::yield();
  }
  expect(sender != nullptr, "connect takes for ever");
  return sender;
}

void* accept_one(Net& net, void* listener) {
  void* receiver = nullptr;
  for (const Instant until = now() + kPatience; receiver == nullptr && now() < until;) {
    expect_ok(net.accept(listener, &receiver), "accept");
    if (receiver == nullptr) std::this_thread::yield();
  }
  expect(receiver != nullptr, "accept takes for ever");
  return receiver;
}

void* open_sender(Net& net, Line& line) {
  return connect_to(net, line.get<Net::Handle>());
}

void* open_receiver(Net& net, Line& line) {
  Net::Handle handle{};
  void* listener = nullptr;
  expect_ok(net.listen(handle, &listener), "listen");
  line.put(handle);
  void* const receiver = accept_one(net, listener);
  expect_ok(net.close_listen(listener), "close_listen");
  return receiver;
}

nccl::NetResult finish(Net& net, void* request, int* sizes) {
  int done = 0;
  for (const Instant until = now() + kPatience; now() < until;) {
    const nccl::NetResult result = net.test(request, &done, sizes);
    if (result != nccl::kSuccess || done != 0) return result;
    std::this_thread::yield();
  }
  fail_part("a request takes for ever");
}

void* must_send(Net& net, void* sender, void* data, std::size_t bytes, int tag) {
  void* request = nullptr;
  while (request == nullptr) expect_ok(net.send(sender, data, bytes, tag, &request), "isend");
  return request;
}

void* must_receive(Net& net, void* receiver, const std::vector<Received>& parts) {
  void* request = nullptr;
  while (request == nullptr) expect_ok(net.receive(receiver, parts, &request), "irecv");
  return request;
}

namespace {

std::uint64_t pattern_at(std::uint64_t seed, std::size_t word) {
  const std::uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15 ^ word * 0xc2b2ae3d27d4eb4f;
  return mixed ^ mixed >> 29;
}

}  // namespace

void fill_pattern(std::vector<std::uint8_t>& data, std::uint64_t seed) {
  for (std::size_t at = 0; at < data.size(); at += 8) {
    const std::uint64_t word = pattern_at(seed, at / 8);
    std::memcpy(data.data() + at, &word, std::min<std::size_t>(8, data.size() - at));
  }
}

bool has_pattern(const std::uint8_t* data, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = pattern_at(seed, at / 8);
    if (std::memcmp(data + at, &word, std::min<std::size_t>(8, bytes - at)) != 0) return false;
  }
  return true;
}

}  // namespace r2ccl::plugin
