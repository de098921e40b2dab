// Faults of a lab are real to the kernel, and to the connections over it.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "lab/lab_plan.h"
#include "lab/net_namespace.h"
#include "tests/lab/command.h"
#include "transport/tcp/socket.h"

namespace r2ccl::lab_tests {
namespace {

constexpr int kPatienceMs = 10'000;

struct Pipe {
  Fd from;  // on server 0
  Fd to;    // on server 1
  int error = 0;
};

Fd socket_in(const Lab& lab, int server) {
  Fd fd;
  const auto name_space = lab::open_namespace(fmt::format("r2ccl-{}-s{}", lab.name(), server));
  EXPECT_TRUE(name_space);
  if (!name_space) return fd;
  EXPECT_TRUE(lab::inside(*name_space, [&]() -> Status {
    fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return {};
  }));
  return fd;
}

sockaddr_in raw(const Address& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  std::memcpy(&out.sin_addr, address.ip.data() + 12, 4);
  return out;
}

bool ready(const Fd& fd, short what) {
  pollfd entry{.fd = fd.get(), .events = what, .revents = 0};
  return ::poll(&entry, 1, kPatienceMs) == 1;
}

int error_of(const Fd& fd) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

enum class Bound : std::uint8_t { kAddressAndNic, kAddress };

// A connection from one NIC of server 0 to one of server 1.
Pipe connect(const Lab& lab, int from_nic, int to_nic, Bound bound = Bound::kAddressAndNic) {
  Pipe pipe;
  const Fd listener = socket_in(lab, 1);
  sockaddr_in here = raw(lab::nic_address({}, 1, to_nic));
  socklen_t length = sizeof here;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &length);
  pipe.from = socket_in(lab, 0);
  const std::string nic = lab::nic_name(from_nic);
  if (bound == Bound::kAddressAndNic) {
    EXPECT_EQ(::setsockopt(pipe.from.get(), SOL_SOCKET, SO_BINDTODEVICE, nic.c_str(), nic.size()), 0);
  }
  const sockaddr_in source = raw(lab::nic_address({}, 0, from_nic));
  EXPECT_EQ(::bind(pipe.from.get(), reinterpret_cast<const sockaddr*>(&source), sizeof source), 0);
  if (::connect(pipe.from.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) != 0 && errno != EINPROGRESS)
    pipe.error = errno;
  if (pipe.error == 0) pipe.error = ready(pipe.from, POLLOUT) ? error_of(pipe.from) : ETIMEDOUT;
  if (pipe.error == 0 && ready(listener, POLLIN)) pipe.to = Fd(::accept(listener.get(), nullptr, nullptr));
  return pipe;
}

// Moves so many bytes and says how long it took.
std::optional<double> seconds_for(const Pipe& pipe, std::size_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<char> memory(256 * 1024);
  for (std::size_t sent = 0, received = 0; received < bytes;) {
    pollfd entries[2] = {{pipe.to.get(), POLLIN, 0},
                         {pipe.from.get(), static_cast<short>(sent < bytes ? POLLOUT : 0), 0}};
    if (::poll(entries, 2, kPatienceMs) <= 0) return std::nullopt;
    if (entries[1].revents != 0) {
      const ssize_t count = ::send(pipe.from.get(), memory.data(), std::min(memory.size(), bytes - sent), MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
    const ssize_t count = ::recv(pipe.to.get(), memory.data(), memory.size(), MSG_DONTWAIT);
    if (count == 0) return std::nullopt;
    if (count > 0) received += static_cast<std::size_t>(count);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(LabFault, EveryKindIsSeenAndHeals) {
  const Lab lab("--servers 2 --nics 2 --rate 500mbit");
  const struct {
    const char* kind;
    const char* state;
    bool carrier;
  } kinds[] = {{"down", "down", false},
               {"cable", "cable out", false},
               {"blackhole", "black hole", true},
               {"slow:50mbit", "slow 50 mbit/s", true}};
  for (const auto& [kind, state, carrier] : kinds) {
    lab.command("fail", fmt::format("server=1 nic=1 kind={}", kind));
    EXPECT_EQ(lab.nic(1, 1)["state"], state);
    EXPECT_EQ(lab.nic(1, 1)["carrier"], carrier) << kind;
    EXPECT_EQ(lab.nic(1, 0)["state"], "ok");
    EXPECT_EQ(lab.nic(0, 1)["state"], "ok");
    lab.command("heal", "server=1 nic=1");
    EXPECT_EQ(lab.nic(1, 1)["state"], "ok") << kind;
    const Pipe pipe = connect(lab, 1, 1);
    EXPECT_EQ(pipe.error, 0) << kind << " is healed, but: " << std::strerror(pipe.error);
    lab.command("fail", fmt::format("server=1 nic=1 kind={} for=10ms", kind));
    EXPECT_EQ(lab.nic(1, 1)["state"], "ok") << kind << ", for a while";
  }
}

TEST(LabFault, FaultsAddUpAndHealTogether) {
  const Lab lab("--servers 1 --nics 1");
  lab.command("fail", "server=0 nic=0 kind=slow:50mbit");
  lab.command("fail", "server=0 nic=0 kind=cable");
  lab.command("fail", "server=0 nic=0 kind=flap:5ms for=20ms");
  EXPECT_EQ(lab.nic(0, 0)["state"], "cable out, slow 50 mbit/s");
  lab.command("heal");
  EXPECT_EQ(lab.nic(0, 0)["state"], "ok");
}

TEST(LabFault, ABlackHoleSwallowsAndTellsNobody) {
  const Lab lab("--servers 2 --nics 2");
  const Pipe pipe = connect(lab, 0, 0);
  ASSERT_EQ(pipe.error, 0);
  lab.command("fail", "server=1 nic=0 kind=blackhole");
  ASSERT_EQ(::send(pipe.from.get(), "x", 1, 0), 1);
  pollfd entry{.fd = pipe.to.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 300), 0) << "nothing came through";
  EXPECT_EQ(error_of(pipe.from), 0);
  lab.command("heal");
  EXPECT_TRUE(ready(pipe.to, POLLIN)) << "sent again once it was healed";
}

TEST(LabFault, AResetEndsTheConnectionsOfThatNicAtBothEnds) {
  const Lab lab("--servers 2 --nics 2");
  const Pipe hit = connect(lab, 1, 1);
  const Pipe other = connect(lab, 0, 0);
  ASSERT_EQ(hit.error, 0);
  ASSERT_EQ(other.error, 0);
  lab.command("fail", "server=1 nic=1 kind=reset");
  char byte = 0;
  ASSERT_TRUE(ready(hit.from, POLLIN));
  EXPECT_EQ(::recv(hit.from.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  ASSERT_TRUE(ready(hit.to, POLLIN));
  EXPECT_EQ(::recv(hit.to.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNABORTED);
  EXPECT_TRUE(seconds_for(other, 1000));
}

// Checks only lower bounds: a busy machine makes transfers slower, nothing makes them faster. The bucket is full in the
// beginning.
TEST(LabFault, RatesHold) {
  const Lab lab("--servers 2 --nics 1 --rate 200mbit");
  constexpr std::size_t kBytes = 8'000'000;
  const Pipe pipe = connect(lab, 0, 0);
  const auto healthy = seconds_for(pipe, kBytes);
  ASSERT_TRUE(healthy);
  EXPECT_GT(*healthy, 0.30);
  lab.command("fail", "server=1 nic=0 kind=slow:50mbit");
  const auto slow = seconds_for(pipe, kBytes);
  ASSERT_TRUE(slow);
  EXPECT_GT(*slow, 1.2) << "the switch's end of the receiver's NIC is slow";
}

TEST(LabFault, RailsAreIsolatedAndARoutedFabricIsNot) {
  const Lab routed("--servers 2 --nics 2 --fabric routed");
  const Pipe across = connect(routed, 0, 1);
  EXPECT_EQ(across.error, 0) << std::strerror(across.error);
  EXPECT_TRUE(seconds_for(across, 1'000'000));
  EXPECT_GE(routed.nic(0, 0)["sent_bytes"], 1'000'000) << "by the NIC it was bound to";
  EXPECT_GE(routed.nic(1, 1)["received_bytes"], 1'000'000);
  const Lab rails("--servers 2 --nics 2 --fabric rails");
  EXPECT_EQ(connect(rails, 1, 1).error, 0);
  EXPECT_NE(connect(rails, 0, 1).error, 0);
}

// Connects as programs do that know addresses only. A NIC that was down has lost its routes.
TEST(LabFault, WhatIsSentFromAnAddressLeavesByItsNic) {
  const Lab lab("--servers 2 --nics 2 --fabric routed");
  constexpr std::int64_t kBytes = 1'000'000;
  for (const char* kind : {"slow:100mbit", "down", "cable"}) {
    lab.command("fail", fmt::format("server=0 nic=1 kind={} for=10ms", kind));
    const std::int64_t before = lab.nic(0, 1)["sent_bytes"];
    const Pipe across = connect(lab, 1, 0, Bound::kAddress);
    ASSERT_EQ(across.error, 0) << kind << ": " << std::strerror(across.error);
    EXPECT_TRUE(seconds_for(across, kBytes)) << kind;
    EXPECT_GE(lab.nic(0, 1)["sent_bytes"].get<std::int64_t>() - before, kBytes) << kind;
  }
}

TEST(LabFault, WhatCanNotBeDoneIsSaid) {
  const Lab lab("--servers 2 --nics 2");
  const struct {
    const char* fault;
    const char* sentence;
  } cases[] = {{"server=2 nic=0 kind=down", "2 servers with 2 NICs"}, {"server=0 nic=0 kind=fire", "is not a kind"}};
  for (const auto& [fault, sentence] : cases) {
    const Ran ran = tool(fmt::format("lab fail --name {} {} 2>&1", lab.name(), fault));
    EXPECT_EQ(ran.status, 2) << fault;
    EXPECT_THAT(ran.out, testing::HasSubstr(sentence));
  }
}

}  // namespace
}  // namespace r2ccl::lab_tests
