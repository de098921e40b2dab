#include "transport/tcp/socket.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <string_view>

namespace r2ccl {
namespace {

struct Socket {
  const Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

  bool use(std::string_view name) const {
    return ::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
  }
  std::string used() const {
    char name[16] = {};
    socklen_t length = sizeof name;
    return ::getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
  }
};

TEST(Socket, BbrGivesWayToCubicUnlessAskedFor) {
  const Socket socket;
  if (!socket.use("bbr")) GTEST_SKIP() << "this kernel has no bbr, or root is needed for it";
  ASSERT_EQ(tune_stream(socket.fd.get(), {.congestion_control = "bbr"}), 0);
  EXPECT_EQ(socket.used(), "bbr");
  ASSERT_EQ(tune_stream(socket.fd.get(), {}), 0);
  EXPECT_EQ(socket.used(), "cubic");
}

TEST(Socket, OtherCongestionControlStays) {
  const Socket socket;
  ASSERT_TRUE(socket.use("reno"));
  ASSERT_EQ(tune_stream(socket.fd.get(), {}), 0);
  EXPECT_EQ(socket.used(), "reno");
  EXPECT_TRUE(has_congestion_control("reno"));
  EXPECT_FALSE(has_congestion_control("nonsense"));
}

TEST(Socket, AZoneIsAnInterfacesNameOrNumberElseTheDevice) {
  const auto scope = [](const char* text, const char* device) {
    const SocketAddress raw = to_socket_address(Address::parse(text).value(), device);
    return reinterpret_cast<const sockaddr_in6&>(raw.storage).sin6_scope_id;
  };
  const std::uint32_t lo = ::if_nametoindex("lo");
  EXPECT_EQ(scope("fe80::1%lo", "eth-none"), lo);
  EXPECT_EQ(scope("fe80::1%77", "lo"), 77u);
  EXPECT_EQ(scope("fe80::1", "lo"), lo);
  EXPECT_EQ(scope("fe80::1%nosuch", "lo"), 0u);
  EXPECT_EQ(scope("2001:db8::1", "lo"), 0u);
}

}  // namespace
}  // namespace r2ccl
