#pragma once
// A dialer with two loopback NICs and connections between them, for tests of transport/tcp. Waiting is always for an
// event, with a bound that only a failing test reaches.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp_dialer.h"

namespace r2ccl {

struct TcpBench {
  static constexpr NicId kA{0};
  static constexpr NicId kB{1};
  struct Ends {
    std::unique_ptr<Stream> client;  // on NIC a
    std::unique_ptr<Stream> server;  // on NIC b
  };

  explicit TcpBench(const TcpConfig& config = {}) {
    auto made = TcpDialer::open(two_nics(), config);
    if (!made) throw std::runtime_error(made.error().what);
    dialer = std::move(*made);
    const auto listening = dialer->listen(kB, 0);
    if (!listening) throw std::runtime_error(listening.error().what);
    address = *listening;
  }

  static std::vector<Nic> two_nics() {
    std::vector<Nic> nics(2);
    nics[0] = {.id = kA, .name = "127.0.0.1", .address = Address::v4(127, 0, 0, 1)};
    nics[1] = {.id = kB, .name = "127.0.0.2", .address = Address::v4(127, 0, 0, 2)};
    return nics;
  }

  // Steps until `done`, sleeping in the dialer; false after ten seconds' worth of sleeping.
  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000; ++i) {
      if (done()) return true;
      if (!dialer->step({})) dialer->wait({}, Instant{} + 5ms);
    }
    return false;
  }

  std::unique_ptr<Stream> dial() {
    auto stream = dialer->connect(kA, address);
    return stream ? std::move(*stream) : nullptr;
  }

  Ends connect() {
    Ends ends{dial(), nullptr};
    until([&] {
      if (!ends.server) ends.server = dialer->accept();
      return ends.server && ends.client->state() != LinkState::kOpening;
    });
    return ends;
  }

  // Writes until the kernel takes no more; returns how much it took.
  static std::size_t fill(Stream& stream) {
    const std::vector<std::byte> block(64 * 1024);
    const ByteView part(block);
    std::size_t total = 0;
    for (;;) {
      const Io io = stream.write({&part, 1});
      total += io.bytes;
      if (io.bytes == 0) return total;
    }
  }

  // Reads and drops what is there.
  static Io drain(Stream& stream, std::size_t& total) {
    std::vector<std::byte> block(64 * 1024);
    const ReadPart part{block.data(), block.size()};
    for (;;) {
      const Io io = stream.read({&part, 1});
      total += io.bytes;
      if (io.bytes == 0) return io;
    }
  }

  static Io write_text(Stream& stream, std::string_view text) {
    const ByteView part = std::as_bytes(std::span(text));
    return stream.write({&part, 1});
  }

  std::unique_ptr<TcpDialer> dialer;
  Address address;
};

}  // namespace r2ccl
