#pragma once
// Providers joined in memory, whose links can be cut or fall silent, for tests of control and of what stands on it.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control/local_link.h"
#include "env/env.h"
#include "transport/link.h"

namespace r2ccl::test {

class NullLog final : public Log {
 public:
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

class CountingRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(next_++ * 37);
  }

 private:
  unsigned next_ = 1;
};

struct Weather {
  bool cut = false;     // both ends are down
  bool silent = false;  // nothing arrives any more; nobody notices by itself
  std::uint8_t network = 0;
  std::uint64_t stirs = 0;  // frames and ends so far, at either end
};

class ControlTestLink final : public Link {
 public:
  ControlTestLink(std::unique_ptr<Link> inner, std::shared_ptr<Weather> weather, Cause born_down = Cause::kNone)
      : inner_(std::move(inner)), weather_(std::move(weather)), born_down_(born_down) {}
  ~ControlTestLink() override { ++weather_->stirs; }

  LinkState state() const override { return cause() == Cause::kNone ? LinkState::kUp : LinkState::kDown; }
  Cause cause() const override {
    if (born_down_ != Cause::kNone) return born_down_;
    if (weather_->cut) return Cause::kReset;
    return weather_->silent ? Cause::kNone : inner_->cause();
  }
  const std::string& error() const override {
    static const std::string text = "Cut by the test.";
    return text;
  }
  const Hello& hello() const override { return inner_->hello(); }
  ProcessId peer() const override { return inner_->peer(); }
  NicId nic() const override { return inner_->nic(); }
  Result<Ticket> post(const OutFrame& frame) override {
    if (state() == LinkState::kDown) return fail(Fault::kPathDown, "down");
    if (weather_->silent) return Ticket{0};
    ++weather_->stirs;
    return inner_->post(frame);
  }
  bool forget(Ticket) override { return false; }
  void discard_rest() override {}
  bool step(Instant now, FrameSink& sink) override {
    return state() == LinkState::kUp && !weather_->silent && inner_->step(now, sink);
  }
  void drain_and_close(Instant now, FrameSink& sink) override {
    ++weather_->stirs;
    inner_->drain_and_close(now, sink);
  }
  void close() override {
    ++weather_->stirs;
    inner_->close();
  }
  Progress progress(Instant) override { return {}; }
  bool deafen(bool) override { return false; }

 private:
  std::unique_ptr<Link> inner_;
  std::shared_ptr<Weather> weather_;
  Cause born_down_;
};

class ControlTestProvider;

struct ControlTestNet {
  std::map<Address, ControlTestProvider*> listeners;
  bool refuse = false;          // connections are refused
  bool unproven = false;        // the accepting end does not know the secret
  bool born_silent = false;     // new connections fall silent at once
  bool isolated = false;        // each network by itself, and those of
  std::set<std::uint8_t> dead;  // networks, by the second number of their addresses: nothing new passes
};

class ControlTestProvider final : public Provider {
 public:
  ControlTestProvider(ControlTestNet& net, ProcessId self, std::size_t nic_count) : net_(net), self_(self) {
    for (std::size_t i = 0; i < nic_count; ++i) {
      const auto number = static_cast<std::uint8_t>(i);
      const auto host = static_cast<std::uint8_t>(self.value);
      nics_.push_back({{number}, "nic" + std::to_string(i), Address::v4(127, number, 0, host), 0, {}, true});
    }
  }
  ~ControlTestProvider() override {
    cut();
    std::erase_if(net_.listeners, [this](const auto& entry) { return entry.second == this; });
  }

  void cut() {
    for (auto& weather : weather_) {
      weather->cut = true;
      ++weather->stirs;
    }
    weather_.clear();
    ++stirs_;
  }
  void silence() {
    for (auto& weather : weather_) weather->silent = true;
  }
  void silence_network(std::uint8_t network) {
    for (auto& weather : weather_) weather->silent |= weather->network == network;
  }

  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId nic, std::uint16_t) override {
    if (broken_nic && *broken_nic == nic) return fail(Fault::kPathDown, "The address is gone.");
    Address address = nics_.at(nic.value).address;
    address.port = 1000;
    net_.listeners[address] = this;
    return address;
  }
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant) override {
    ++connects;
    tried.emplace_back(nic, remote);
    const auto listener = net_.listeners.find(remote);
    auto weather = std::make_shared<Weather>();
    weather->silent = net_.born_silent;
    weather->network = remote.ip[13];
    const bool refused = net_.refuse || listener == net_.listeners.end();
    const bool dead = net_.dead.contains(remote.ip[13]) || nics_.at(nic.value).address.ip[13] != remote.ip[13];
    auto [here, there] = make_local_links(hello, refused ? ProcessId{} : listener->second->self_);
    if (net_.isolated && dead) return std::make_unique<ControlTestLink>(std::move(here), weather, Cause::kTimeout);
    if (refused || net_.unproven) {
      return std::make_unique<ControlTestLink>(std::move(here), weather, refused ? Cause::kRefused : Cause::kUnproven);
    }
    weather_.push_back(weather);
    listener->second->weather_.push_back(weather);
    listener->second->accepted_.push_back(std::make_unique<ControlTestLink>(std::move(there), weather));
    return std::make_unique<ControlTestLink>(std::move(here), weather);
  }
  std::unique_ptr<Link> accept() override {
    if (accepted_.empty()) return nullptr;
    auto link = std::move(accepted_.front());
    accepted_.pop_front();
    return link;
  }
  std::optional<NicEvent> next_event() override {
    if (events.empty()) return std::nullopt;
    const NicEvent event = events.front();
    events.pop_front();
    return event;
  }
  Turn step(Instant) override {
    std::uint64_t stirs = stirs_ + accepted_.size() + events.size();
    for (const auto& weather : weather_) stirs += weather->stirs;
    return {.moved = std::exchange(seen_, stirs) != stirs};
  }

  int connects = 0;
  std::vector<std::pair<NicId, Address>> tried;
  std::deque<NicEvent> events;
  std::optional<NicId> broken_nic;

 private:
  ControlTestNet& net_;
  ProcessId self_;
  std::vector<Nic> nics_;
  std::deque<std::unique_ptr<Link>> accepted_;
  std::vector<std::shared_ptr<Weather>> weather_;
  std::uint64_t stirs_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace r2ccl::test
