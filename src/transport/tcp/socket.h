#pragma once
// The system calls a TCP socket needs, each with one meaning. No state beyond the descriptor.

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "topology/nic.h"
#include "topology/path_state.h"

namespace r2ccl {

struct TcpConfig {
  int send_buffer_bytes = 0;     // SO_SNDBUF; 0 = the kernel tunes it
  int receive_buffer_bytes = 0;  // SO_RCVBUF; 0 = the kernel tunes it
  // Unsent bytes the kernel takes beyond what is in flight. More only makes control frames wait behind bulk data.
  int not_sent_low_water_bytes = 128 * 1024;
  // A name that the kernel knows. Empty: the system's choice, but cubic where that is bbr. BBR paces and probes, for
  // paths of unknown length; between servers that own their NICs it left a seventh of the rate unused
  // (docs/results/lab.md).
  std::string congestion_control{};
  // The longest delay of an acknowledgement, if the kernel lets us choose (Linux 6.15). Its default of 40 ms is longer
  // than the silence after which a path becomes suspect: we measured a stopped reader that acknowledged its last
  // segments 42 ms late.
  Duration ack_delay_max = 5ms;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// `device` names the interface of a link-local IPv6 address that has no zone; ignored otherwise.
SocketAddress to_socket_address(const Address& address, const std::string& device);
Address from_socket_address(const sockaddr_storage& storage);
Address local_address(int fd);
Address remote_address(int fd);

// Why the path is down, as an errno of its socket tells it.
Cause cause_of(int error_number);
// "connect to 10.0.0.1:5000: Connection refused"
std::string describe(const std::string& what, int error_number);

// The address that a connection to `remote` would come from, as routes are now; nullopt: none leads there. Sends
// nothing.
std::optional<Address> source_towards(const Address& remote);

// The next functions return 0 or an errno. Sockets are non-blocking, close on exec, and bound to the NIC's interface if
// it is a real one. A NIC whose address is unspecified is no interface in particular; with IPv6 its socket takes IPv4,
// too.
int open_socket(const Nic& nic, Fd& out);
int bind_to(int fd, const Nic& nic, std::uint16_t port);  // to the NIC's address
int tune_stream(int fd, const TcpConfig& config);         // options of a connection
void tune_buffers(int fd, const TcpConfig& config);       // must precede connect() and listen()
int pending_error(int fd);                                // SO_ERROR

bool has_congestion_control(const std::string& name);  // this kernel knows it and lets us use it

// From now on every packet that arrives for the socket is dropped before TCP sees it, acknowledgements included; no
// privilege needed. Inherited by the connections a listener accepts.
bool set_drop_filter(int fd, bool on);

// Closing sends a reset and nothing lingers.
void close_with_reset(Fd fd);

}  // namespace r2ccl
