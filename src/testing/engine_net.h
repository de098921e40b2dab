#pragma once
// Engines of several processes joined in memory, in one thread, with all that a communicator needs of them: the shipped
// provider, with its frames and its handshake, over byte streams in memory. The test moves the clock and kills
// processes.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "env/seeded_random.h"
#include "runtime/engine.h"
#include "testing/control_net.h"
#include "testing/memory_stream.h"
#include "transport/stream/stream_provider.h"

namespace r2ccl::test {

class StreamNetDialer;
using StreamListeners = std::map<Address, StreamNetDialer*>;

// NIC n of process p has the address 127.n.0.p.
class StreamNetDialer final : public Dialer {
 public:
  StreamNetDialer(StreamListeners& listeners, ProcessId self, std::size_t nic_count) : listeners_(listeners) {
    for (std::size_t i = 0; i < nic_count; ++i) {
      const auto number = static_cast<std::uint8_t>(i);
      const Address address = Address::v4(127, number, 0, static_cast<std::uint8_t>(self.value));
      nics_.push_back({{number}, "nic" + std::to_string(i), address, 0, {}, true});
    }
  }
  ~StreamNetDialer() override { die(); }
  // Nobody reaches this process any more, and what was connected is reset.
  void die() {
    std::erase_if(listeners_, [this](const auto& entry) { return entry.second == this; });
    for (const auto& pipe : pipes_) pipe->reset = true;
    pipes_.clear();
  }

  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId nic, std::uint16_t port) override {
    Address address = nics_.at(nic.value).address;
    address.port = port != 0 ? port : next_port_++;
    listeners_[address] = this;
    return address;
  }
  Result<std::unique_ptr<Stream>> connect(NicId nic, const Address& remote) override {
    const auto listener = listeners_.find(remote);
    if (listener == listeners_.end()) return fail(Fault::kPathDown, "Nobody listens there.");
    auto there = std::make_shared<MemoryPipe>(), back = std::make_shared<MemoryPipe>();
    for (StreamNetDialer* end : {this, listener->second}) {
      end->pipes_.push_back(there);
      end->pipes_.push_back(back);
    }
    listener->second->inbound_.push_back(std::make_unique<MemoryStream>(there, back, NicId{remote.ip[13]}));
    return std::make_unique<MemoryStream>(back, there, nic);
  }
  std::unique_ptr<Stream> accept() override {
    if (inbound_.empty()) return nullptr;
    auto stream = std::move(inbound_.front());
    inbound_.pop_front();
    return stream;
  }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  bool step(Instant) override { return true; }

 private:
  StreamListeners& listeners_;
  std::vector<Nic> nics_;
  std::uint16_t next_port_ = 1000;
  std::deque<std::unique_ptr<Stream>> inbound_;
  std::vector<std::shared_ptr<MemoryPipe>> pipes_;  // of all its connections
};

struct StillClock final : Clock {
  Instant now() override { return at; }
  Instant at{1h};
};

// One process.
struct EngineNode {
  EngineNode(StreamListeners& listeners, Clock& clock, std::uint64_t process, std::size_t nics,
             const SessionLimits& limits)
      : env{clock, random, log},
        random(process),
        dialer(listeners, {process}, nics),
        provider(dialer, keyring, random, {process}, StreamLimits{}),
        telemetry(1 << 16),
        engine(env, provider, keyring, telemetry, {process}, config_of(process, limits)) {}

  static EngineConfig config_of(std::uint64_t process, const SessionLimits& limits) {
    EngineConfig config;
    config.server = {process};
    config.rank = static_cast<std::uint32_t>(process - 1);
    config.host = "host" + std::to_string(process - 1);
    config.session.limits = limits;
    return config;
  }

  Env env;
  NullLog log;
  SeededRandom random;
  StreamNetDialer dialer;
  Keyring keyring;
  StreamProvider provider;
  Telemetry telemetry;
  Engine engine;
};

// Processes 1 to `count`, each a server of its own; counted from 0 here, as ranks are.
class EngineNet final {
 public:
  explicit EngineNet(std::size_t count, std::size_t nics = 2, const SessionLimits& limits = {.peer_timeout = 2s}) {
    for (std::uint64_t process = 1; process <= count; ++process) {
      nodes_.push_back(std::make_unique<EngineNode>(listeners_, clock_, process, nics, limits));
      R2CCL_ASSERT(nodes_.back()->engine.listen().has_value(), "every NIC in memory listens");
    }
  }

  Engine& engine(std::size_t rank) { return nodes_[rank]->engine; }
  EngineNode& node(std::size_t rank) { return *nodes_[rank]; }
  // As a process that says nothing more; what it was made of stays until the end of the test.
  void kill(std::size_t rank) {
    nodes_[rank]->dialer.die();
    dead_.insert(nodes_[rank].get());
  }
  Instant now() const { return clock_.at; }
  UniqueId make_id() { return engine(0).host(0).value(); }

  void turn(Duration by = 1ms) {
    clock_.at += by;
    for (const auto& node : nodes_) {
      if (!dead_.contains(node.get())) node->engine.step(clock_.at);
    }
  }
  void pass(Duration time) {
    for (const Instant end = clock_.at + time; clock_.at < end;) turn();
  }
  // False: not within `limit`.
  template <class Done>
  bool run(Done done, Duration limit = 10s) {
    for (const Instant end = clock_.at + limit; clock_.at < end; turn()) {
      if (done()) return true;
    }
    return done();
  }

 private:
  StillClock clock_;
  StreamListeners listeners_;
  std::vector<std::unique_ptr<EngineNode>> nodes_;
  std::set<const EngineNode*> dead_;
};

}  // namespace r2ccl::test
