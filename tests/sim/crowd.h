#pragma once
// Ranks of one communicator under the simulated network, each a whole process and a server of its own, without
// faults: for what depends on how many they are. Who looks at a step of a process measures what it took in real time,
// or asks who planned in it.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/cpu/cpu_device.h"
#include "runtime/engine.h"
#include "sim/net/wires/sim_dialer.h"
#include "telemetry/telemetry.h"
#include "transport/stream/keyring.h"
#include "transport/stream/stream_provider.h"

namespace r2ccl::sim {

class Crowd final {
 public:
  // How a process is stepped: calls what it is given, once.
  using Stepping = std::function<void(std::uint32_t rank, const std::function<void()>& step)>;

  using Configure = std::function<CommConfig(std::uint32_t rank)>;
  // Bytes per second of a NIC of a rank.
  using Rates = std::function<double(std::uint32_t rank, std::uint32_t nic)>;

  Crowd(std::uint32_t ranks, std::uint32_t nics, const Configure& config, Stepping stepping = {},
        const Rates& rates = {})
      : world_(1, {}),
        network_(world_, network_config(), std::min(ranks, kHouses), nics),
        stepping_(std::move(stepping)) {
    for (std::uint32_t rank = 0; rates && rank < std::min(ranks, kHouses); ++rank) {
      for (std::uint32_t nic = 0; nic < nics; ++nic) nic_state(rank, nic).rate_bytes_s = rates(rank, nic);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      members_.push_back(std::make_unique<Member>(*this, rank));
      const Status listening = members_.back()->engine.listen();
      if (!listening) throw std::runtime_error(listening.error().what);
    }
    add_communicator(config);
  }

  // One more of all ranks; those of the constructor's are number 0.
  void add_communicator(const Configure& config) {
    const auto id = members_[0]->engine.host(ranks());
    if (!id) throw std::runtime_error(id.error().what);
    for (const auto& member : members_) {
      member->communicators.push_back(std::make_unique<Communicator>(member->engine, member->env(), device_, *id,
                                                                     member->rank, ranks(), config(member->rank)));
      wake(member->rank);
    }
  }

  SimWorld& world() { return world_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }
  Communicator& communicator(std::uint32_t rank, std::size_t number = 0) {
    return *members_[rank]->communicators[number];
  }
  // As a driver is woken.
  void wake(std::uint32_t rank) { world_.wake(members_[rank]->slot); }
  // Until it is true for all ranks. False: not within `most` of simulated time.
  bool run_until_all(const std::function<bool(std::uint32_t rank)>& holds, Duration most) {
    const Instant until = world_.now() + most;
    while (world_.now() < until) {
      std::uint32_t rank = 0;
      while (rank < ranks() && holds(rank)) ++rank;
      if (rank == ranks()) return true;
      world_.run_until(world_.now() + kLookEvery);
    }
    return false;
  }
  void run_for(Duration time) { world_.run_until(world_.now() + time); }
  void submit(std::uint32_t rank, const Call& call) {
    if (auto ticket = communicator(rank).submit({call}); !ticket) throw std::runtime_error(ticket.error().what);
    wake(rank);
  }
  // How many others a rank has a session with.
  std::size_t sessions_of(std::uint32_t rank) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        members_, [&](const auto& other) { return members_[rank]->engine.find_session(other->id) != nullptr; }));
  }
  void lose_nic(std::uint8_t server, std::uint8_t nic) { network_.set_carrier({server, nic}, false); }
  bool join(std::size_t number = 0, Duration most = 60s) {
    return run_until_all([&](std::uint32_t rank) { return communicator(rank, number).state() == CommState::kReady; },
                         most);
  }
  bool finish(const std::vector<TicketPtr>& tickets, Duration most = 60s) {
    return run_until_all([&](std::uint32_t rank) { return tickets[rank]->done; }, most);
  }
  // All ranks make the call, on ones; each has its own buffer, which stays until the crowd goes.
  std::vector<TicketPtr> all_reduce(std::uint64_t floats, std::size_t number = 0) {
    std::vector<TicketPtr> tickets;
    for (const auto& member : members_) {
      std::vector<float>& memory = member->buffers.emplace_back(floats, 1.0F);
      Call call;
      call.input = call.output = memory.data();
      call.count = floats;
      auto ticket = member->communicators[number]->submit({call});
      if (!ticket) throw std::runtime_error(ticket.error().what);
      tickets.push_back(*ticket);
      wake(member->rank);
    }
    return tickets;
  }
  // What every all_reduce() must have left: one from each rank.
  bool sums_are_right() const {
    const auto right = [&](const std::vector<float>& memory) {
      return std::ranges::all_of(memory, [&](float one) { return one == static_cast<float>(ranks()); });
    };
    return std::ranges::all_of(members_,
                               [&](const auto& member) { return std::ranges::all_of(member->buffers, right); });
  }

 private:
  static constexpr std::uint32_t kHouses = 128;  // the simulated network's servers: several of ours may live in one
  static constexpr Duration kLookEvery = 1ms;

  static NetworkConfig network_config() {
    NetworkConfig config;
    config.rate_bytes_s = 1e9;
    config.backlog = 4096;
    return config;
  }

  SimNicState& nic_state(std::uint32_t rank, std::uint32_t nic) {
    return network_.nic({static_cast<std::uint8_t>(rank % kHouses), static_cast<std::uint8_t>(nic)});
  }

  struct MuteLog final : Log {
    bool enabled(LogLevel) const override { return false; }
    void write(LogLevel, std::string_view) override {}
  };
  struct Member final : Stepped {
    Member(Crowd& all, std::uint32_t number)
        : crowd(all),
          rank(number),
          random(number + 1),
          id{random.draw() | 1},
          dialer(all.network_, static_cast<std::uint8_t>(number % kHouses)),
          provider(dialer, keyring, random, id, StreamLimits{}),
          engine(env(), provider, keyring, telemetry, id, engine_config(number)),
          slot(all.world_.add(*this)) {
      dialer.set_process(slot);
    }
    static EngineConfig engine_config(std::uint32_t number) {
      EngineConfig config;
      config.server = {std::uint64_t{number} + 1};
      config.host = fmt::format("server{}", number);
      config.session.limits.peer_timeout = 600s;
      return config;
    }
    Env env() { return {crowd.world_, random, log}; }
    Turn step(Instant now) override {
      Turn turn;
      const auto step = [&] { turn = engine.step(now); };
      if (crowd.stepping_)
        crowd.stepping_(rank, step);
      else
        step();
      return turn;
    }

    Crowd& crowd;
    const std::uint32_t rank;
    SimRandom random;
    MuteLog log;
    const ProcessId id;
    Keyring keyring;
    SimDialer dialer;
    Telemetry telemetry{16};
    StreamProvider provider;
    Engine engine;
    const ProcessIndex slot;
    std::deque<std::vector<float>> buffers;
    std::vector<std::unique_ptr<Communicator>> communicators;  // go before their engine and memory
  };

  SimWorld world_;
  Network network_;
  CpuDevice device_;
  const Stepping stepping_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace r2ccl::sim
