#include "transport/tcp/socket.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

namespace r2ccl {

namespace {

constexpr int kTcpDelackMaxUs = 46;  // TCP_DELACK_MAX_US, newer than the C library's header

int set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

int tune_congestion(int fd, std::string name) {
  if (name.empty()) {
    char used[16] = {};
    socklen_t length = sizeof used;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, used, &length) != 0 || std::string_view(used) != "bbr") return 0;
    name = "cubic";
  }
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0 ? 0
                                                                                                              : errno;
}

// 0 where no zone is said, or it is no interface of this server.
std::uint32_t zone_index(const Address& address, const std::string& device) {
  const char* const zone = address.zone.front() != 0 ? address.zone.data() : device.c_str();
  if (const auto index = ::if_nametoindex(zone); index != 0) return index;
  return static_cast<std::uint32_t>(std::strtoul(zone, nullptr, 10));
}

using AddressQuery = int (*)(int, sockaddr*, socklen_t*);
Address query_address(int fd, AddressQuery query) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (query(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return from_socket_address(storage);
}

}  // namespace

SocketAddress to_socket_address(const Address& address, const std::string& device) {
  SocketAddress out;
  if (address.is_v4()) {
    auto& in = reinterpret_cast<sockaddr_in&>(out.storage);
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.ip.data() + 12, 4);
    out.length = sizeof in;
    return out;
  }
  auto& in = reinterpret_cast<sockaddr_in6&>(out.storage);
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(address.port);
  std::memcpy(&in.sin6_addr, address.ip.data(), 16);
  if (address.is_link_local()) in.sin6_scope_id = zone_index(address, device);
  out.length = sizeof in;
  return out;
}

Address from_socket_address(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    std::array<std::uint8_t, 4> b{};
    std::memcpy(b.data(), &in.sin_addr, 4);
    return Address::v4(b[0], b[1], b[2], b[3], ntohs(in.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
    std::memcpy(address.ip.data(), &in.sin6_addr, 16);
    address.port = ntohs(in.sin6_port);
  }
  return address;
}

Address local_address(int fd) {
  return query_address(fd, ::getsockname);
}
Address remote_address(int fd) {
  return query_address(fd, ::getpeername);
}

std::optional<Address> source_towards(const Address& remote) {
  const Fd fd(::socket(remote.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress raw = to_socket_address(remote, "");
  if (!fd || ::connect(fd.get(), raw.get(), raw.length) != 0) return std::nullopt;
  Address source = local_address(fd.get());
  source.port = 0;
  return source;
}

Cause cause_of(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
      return Cause::kRefused;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
      return Cause::kTimeout;
    case ENETDOWN:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case ENODEV:
      return Cause::kLocal;
    default:  // ECONNRESET, EPIPE and whatever else ends a connection without telling us more
      return Cause::kReset;
  }
}

std::string describe(const std::string& what, int error_number) {
  return fmt::format("{}: {}", what, std::generic_category().message(error_number));
}

int open_socket(const Nic& nic, Fd& out) {
  const int family = nic.address.is_v4() ? AF_INET : AF_INET6;
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  if (family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, nic.address.is_unspecified() ? 0 : 1);
  if (!nic.address.is_loopback() && ::if_nametoindex(nic.name.c_str()) != 0) {
    // Keeps traffic on the NIC even where two NICs share a subnet. Not everybody may do it; binding the address
    // remains.
    const auto length = static_cast<socklen_t>(nic.name.size());
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, nic.name.c_str(), length) != 0 && errno != EPERM)
      return errno;
  }
  out = std::move(fd);
  return 0;
}

int bind_to(int fd, const Nic& nic, std::uint16_t port) {
  Address address = nic.address;
  address.port = port;
  const SocketAddress raw = to_socket_address(address, nic.name);
  return ::bind(fd, raw.get(), raw.length) == 0 ? 0 : errno;
}

void tune_buffers(int fd, const TcpConfig& config) {
  if (config.send_buffer_bytes > 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, config.send_buffer_bytes);
  if (config.receive_buffer_bytes > 0) set_option(fd, SOL_SOCKET, SO_RCVBUF, config.receive_buffer_bytes);
}

bool has_congestion_control(const std::string& name) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && tune_congestion(fd.get(), name) == 0;
}

int tune_stream(int fd, const TcpConfig& config) {
  tune_congestion(fd, config.congestion_control);  // without it the connection is only slower
  if (const int error = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1)) return error;
  if (config.not_sent_low_water_bytes > 0) {
    if (const int error = set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, config.not_sent_low_water_bytes)) return error;
  }
  const auto delay_us = std::chrono::duration_cast<std::chrono::microseconds>(config.ack_delay_max).count();
  if (delay_us > 0) set_option(fd, IPPROTO_TCP, kTcpDelackMaxUs, static_cast<int>(delay_us));
  return 0;
}

int pending_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool set_drop_filter(int fd, bool on) {
  if (!on) {
    const int unused = 0;
    return ::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0 || errno == ENOENT;
  }
  sock_filter accept_zero_bytes = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &accept_zero_bytes};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

void close_with_reset(Fd fd) {
  if (!fd) return;
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

}  // namespace r2ccl
