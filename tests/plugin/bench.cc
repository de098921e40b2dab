// How fast the plugin moves host memory between two processes of this machine, and what bare TCP does there: one
// line per size.
//
//   plugin_bench [NICS [IDLE]]      IDLE connections each way that do nothing

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/plugin/processes.h"

namespace r2ccl::plugin {
namespace {

constexpr std::size_t kWindow = 8;  // as many as NCCL has under way on a connection
constexpr int kRounds = 2000;

std::size_t rounds_of(std::size_t bytes) {
  return std::clamp<std::size_t>((std::size_t{512} << 20) / std::max<std::size_t>(bytes, 1), 32, 20000);
}
constexpr std::size_t kOperationSizes[] = {std::size_t{32} << 10, std::size_t{128} << 10, std::size_t{512} << 10};
constexpr std::size_t kSizes[] = {std::size_t{64} << 10, std::size_t{512} << 10, std::size_t{4} << 20};

void stream_out(Net& net, void* sender, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes * kWindow, 1);
  std::vector<void*> requests(kWindow, nullptr);
  const std::size_t rounds = rounds_of(bytes);
  for (std::size_t i = 0; i < rounds + kWindow; ++i) {
    void*& slot = requests[i % kWindow];
    if (slot != nullptr) expect_ok(finish(net, slot), "send");
    slot = i < rounds ? must_send(net, sender, data.data() + (i % kWindow) * bytes, bytes) : nullptr;
  }
}

void stream_in(Net& net, void* receiver, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes * kWindow, 1);
  std::vector<void*> requests(kWindow, nullptr);
  const std::size_t rounds = rounds_of(bytes);
  Instant start{};
  for (std::size_t i = 0; i < rounds + kWindow; ++i) {
    void*& slot = requests[i % kWindow];
    if (slot != nullptr) expect_ok(finish(net, slot), "receive");
    if (i == kWindow) start = now();
    slot = i < rounds ? must_receive(net, receiver, {{data.data() + (i % kWindow) * bytes, bytes, 0}}) : nullptr;
  }
  const double seconds = to_seconds(now() - start);
  std::printf("plugin  %8zu bytes  %6.2f GB/s\n", bytes, static_cast<double>(bytes * (rounds - 1)) / seconds / 1e9);
  std::fflush(stdout);
}

// Both directions at once, from one thread, as a ring does it: `steps` messages out and in.
void exchange(Net& net, void* sender, void* receiver, std::size_t bytes, bool prints) {
  std::vector<std::uint8_t> out(bytes * kWindow, 1), in(bytes * kWindow, 1);
  std::vector<void*> sends(kWindow, nullptr), receives(kWindow, nullptr);
  const std::size_t rounds = rounds_of(bytes) / 2;
  std::size_t sent = 0, sent_over = 0, received = 0, received_over = 0;
  const Instant start = now();
  int done = 0;
  while (sent_over < rounds || received_over < rounds) {
    if (received < rounds && received - received_over < kWindow) {
      const std::size_t at = received % kWindow;
      expect_ok(net.receive(receiver, {{in.data() + at * bytes, bytes, 0}}, &receives[at]), "irecv");
      if (receives[at] != nullptr) ++received;
    }
    if (sent < rounds && sent - sent_over < kWindow) {
      const std::size_t at = sent % kWindow;
      expect_ok(net.send(sender, out.data() + at * bytes, bytes, 0, &sends[at]), "isend");
      if (sends[at] != nullptr) ++sent;
    }
    if (sent_over < sent) {
      expect_ok(net.test(sends[sent_over % kWindow], &done, nullptr), "test");
      sent_over += static_cast<std::size_t>(done);
    }
    bool idle = done == 0;
    if (received_over < received) {
      expect_ok(net.test(receives[received_over % kWindow], &done, nullptr), "test");
      received_over += static_cast<std::size_t>(done);
      idle = idle && done == 0;
    }
    if (idle) std::this_thread::yield();  // as NCCL's proxy does
  }
  if (!prints) return;
  const double seconds = to_seconds(now() - start);
  std::printf("plugin  %8zu bytes  %6.2f GB/s each way at once\n", bytes,
              static_cast<double>(bytes * rounds) / seconds / 1e9);
  std::fflush(stdout);
}

// Receives are posted ahead and hold 64 KiB, as NCCL's for small messages do.
void ping(Net& net, void* sender, void* receiver, std::size_t bytes, bool first) {
  constexpr std::size_t kAhead = 4, kSlot = std::size_t{64} << 10;
  std::vector<std::uint8_t> out(bytes), in(kSlot * kAhead);
  std::vector<void*> waits;
  const auto post = [&](std::size_t slot) {
    return must_receive(net, receiver, {{in.data() + slot * kSlot, kSlot, 0}});
  };
  for (std::size_t i = 0; i < kAhead; ++i) waits.push_back(post(i));
  std::vector<double> micros;
  for (std::size_t i = 0; i < kRounds; ++i) {
    const Instant start = now();
    if (first) expect_ok(finish(net, must_send(net, sender, out.data(), bytes)), "ping");
    expect_ok(finish(net, waits[i % kAhead]), "pong");
    if (!first) expect_ok(finish(net, must_send(net, sender, out.data(), bytes)), "pong");
    if (i + kAhead < kRounds) waits[i % kAhead] = post(i % kAhead);
    micros.push_back(to_seconds(now() - start) * 1e6);
  }
  std::ranges::sort(micros);
  if (first) std::printf("plugin  %8zu bytes  %6.1f us a round trip (median)\n", bytes, micros[micros.size() / 2]);
  std::fflush(stdout);
}

// One way, one message at a time on each of two connections, as NCCL does with one operation after the other.
void operations(Net& net, std::array<void*, 2> ends, std::size_t bytes, bool sends) {
  std::vector<std::uint8_t> data(bytes * 2, 1);
  std::array<void*, 2> requests{};
  std::array<std::size_t, 2> left;
  const std::size_t rounds = rounds_of(bytes) / 4;
  left.fill(rounds);
  const Instant start = now();
  while (left[0] + left[1] > 0) {
    bool idle = true;
    for (std::size_t i = 0; i < 2; ++i) {
      if (requests[i] == nullptr && left[i] > 0) {
        if (sends) expect_ok(net.send(ends[i], data.data() + i * bytes, bytes, 0, &requests[i]), "isend");
        if (!sends) expect_ok(net.receive(ends[i], {{data.data() + i * bytes, bytes, 0}}, &requests[i]), "irecv");
      }
      if (requests[i] == nullptr) continue;
      int done = 0;
      expect_ok(net.test(requests[i], &done, nullptr), "test");
      if (done == 0) continue;
      requests[i] = nullptr;
      --left[i];
      idle = false;
    }
    if (idle) std::this_thread::yield();
  }
  if (sends) return;
  const double micros = to_seconds(now() - start) * 1e6 / static_cast<double>(rounds);
  std::printf("plugin  %8zu bytes  %6.1f us for two, one after the other\n", bytes, micros);
  std::fflush(stdout);
}

// The same over bare sockets: a length, then the bytes.
struct Socket {
  int fd = -1;
  std::size_t at = 0;  // of length and bytes

  bool move(std::vector<char>& data, std::size_t bytes, bool sends) {
    std::uint64_t length = bytes;
    while (at < bytes + sizeof length) {
      const bool head = at < sizeof length;
      char* const from = head ? reinterpret_cast<char*>(&length) + at : data.data() + at - sizeof length;
      const std::size_t count = head ? sizeof length - at : bytes + sizeof length - at;
      const ssize_t moved = sends ? ::send(fd, from, count, MSG_DONTWAIT) : ::recv(fd, from, count, MSG_DONTWAIT);
      if (moved < 0 && errno == EAGAIN) return false;
      expect(moved > 0, "the other end of a bare socket is gone");
      at += static_cast<std::size_t>(moved);
    }
    at = 0;
    return true;
  }
};

void bare_operations(std::array<Socket, 2> sockets, bool sends) {
  for (const std::size_t bytes : kOperationSizes) {
    std::vector<char> data(bytes);
    const std::size_t rounds = rounds_of(bytes) / 4;
    std::array<std::size_t, 2> left;
    left.fill(rounds);
    const Instant start = now();
    while (left[0] + left[1] > 0) {
      bool idle = true;
      for (std::size_t i = 0; i < 2; ++i) {
        if (left[i] == 0 || !sockets[i].move(data, bytes, sends)) continue;
        --left[i];
        idle = false;
      }
      if (idle) std::this_thread::yield();
    }
    const double micros = to_seconds(now() - start) * 1e6 / static_cast<double>(rounds);
    if (!sends) std::printf("TCP     %8zu bytes  %6.1f us for two, one after the other\n", bytes, micros);
    std::fflush(stdout);
  }
}

void bare_tcp() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  ::listen(listener, 3);
  constexpr std::size_t kAll = std::size_t{2} << 30, kPiece = std::size_t{512} << 10;
  std::vector<char> piece(kPiece);
  const pid_t child = ::fork();
  const int one = 1;
  std::array<Socket, 2> sockets;
  if (child == 0) {
    for (Socket& socket : sockets) {
      socket.fd = ::socket(AF_INET, SOCK_STREAM, 0);
      ::connect(socket.fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
      ::setsockopt(socket.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    bare_operations(sockets, true);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < kRounds; ++i) {
      if (::send(fd, piece.data(), 8, 0) != 8 || ::recv(fd, piece.data(), 8, MSG_WAITALL) != 8) ::_exit(1);
    }
    for (std::size_t sent = 0; sent < kAll; sent += kPiece) {
      for (std::size_t at = 0; at < kPiece;) at += static_cast<std::size_t>(::send(fd, piece.data(), kPiece - at, 0));
    }
    ::_exit(0);
  }
  for (Socket& socket : sockets) socket.fd = ::accept(listener, nullptr, nullptr);
  bare_operations(sockets, false);
  const int fd = ::accept(listener, nullptr, nullptr);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Instant start = now();
  for (int i = 0; i < kRounds; ++i) {
    if (::recv(fd, piece.data(), 8, MSG_WAITALL) != 8 || ::send(fd, piece.data(), 8, 0) != 8) return;
  }
  std::printf("TCP            8 bytes  %6.1f us a round trip (mean)\n", to_seconds(now() - start) * 1e6 / kRounds);
  start = now();
  for (std::size_t got = 0; got < kAll;) {
    const ssize_t more = ::recv(fd, piece.data(), piece.size(), 0);
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  std::printf("TCP       524288 bytes  %6.2f GB/s\n", static_cast<double>(kAll) / to_seconds(now() - start) / 1e9);
  std::fflush(stdout);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace r2ccl::plugin

int main(int count, char** words) {
  using namespace r2ccl::plugin;
  bare_tcp();
  PairOptions options;
  options.nics = count > 1 ? std::atoi(words[1]) : 1;
  const int idle = count > 2 ? std::atoi(words[2]) : 0;
  const auto part = [idle](bool first) {
    return [first, idle](Net& net, Line& line) {
      void* sender = nullptr;
      void* receiver = nullptr;
      if (first) sender = open_sender(net, line), receiver = open_receiver(net, line);
      if (!first) receiver = open_receiver(net, line), sender = open_sender(net, line);
      for (int i = 0; i < idle; ++i) {
        if (first) open_sender(net, line), open_receiver(net, line);
        if (!first) open_receiver(net, line), open_sender(net, line);
      }
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{8192}, std::size_t{65536}})
        ping(net, sender, receiver, bytes, first);
      void* const second = first ? open_sender(net, line) : open_receiver(net, line);
      for (const std::size_t bytes : kOperationSizes) {
        line.meet();
        operations(net, {first ? sender : receiver, second}, bytes, first);
      }
      expect_ok(first ? net.close_send(second) : net.close_receive(second), "close");
      for (const std::size_t bytes : kSizes) {
        line.meet();
        if (first) stream_out(net, sender, bytes);
        if (!first) stream_in(net, receiver, bytes);
      }
      for (const std::size_t bytes : kSizes) {
        line.meet();
        exchange(net, sender, receiver, bytes, first);
      }
      line.meet();
      expect_ok(net.close_send(sender), "close_send");
      expect_ok(net.close_receive(receiver), "close_receive");
    };
  };
  const std::string why = run_pair(options, part(true), part(false));
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
