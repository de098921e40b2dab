#include "apps/r2ccl/perf/bench_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/job.h"

namespace r2ccl::apps {
namespace {

constexpr GroupId kGroup{1};
constexpr StreamId kBulk{1};
constexpr StreamId kPing{2};
constexpr std::uint64_t kPingOutToken = ~0ull;
constexpr std::uint64_t kPingInToken = ~0ull - 1;

// What `body` posts with the engine to itself.
template <class Body>
Status post_with(Driver& driver, const Body& body) {
  Status posted;
  driver.with_engine([&](Engine& engine) { posted = body(engine); });
  return posted;
}

Result<MetPeer> meet_peer(const Settings& settings, bool first, LineChannel& parent) {
  const std::uint32_t rank = first ? 0 : 1;
  ProcessOptions options;
  options.rank = rank;
  auto process = Process::create(settings, options);
  if (!process) return std::unexpected(process.error());
  const auto id = share_id(parent, rank, [&] { return (*process)->host(2); }, "the job");
  if (!id) return std::unexpected(id.error());
  if (const Status joined = (*process)->join(*id, kJoinMax); !joined) return std::unexpected(joined.error());
  MetPeer met{std::move(*process), {}, id->secret};
  met.process->driver().with_engine([&](Engine& engine) { met.peer = engine.roster().at(1 - rank).process; });
  return met;
}

}  // namespace

Result<std::unique_ptr<BenchEnd>> BenchEnd::create(const Settings& settings, bool first, LineChannel& parent) {
  auto met = meet_peer(settings, first, parent);
  if (!met) return std::unexpected(met.error());
  return std::unique_ptr<BenchEnd>(new BenchEnd(std::move(*met)));
}

BenchEnd::BenchEnd(MetPeer met) : met_(std::move(met)) {
  driver().with_engine([&](Engine& engine) { engine.session(met_.peer).join(kGroup, met_.secret); });
}

Status BenchEnd::stream(const CopyPlan& plan, Region& ring, bool sending) {
  std::vector<std::uint64_t> free_slots;
  for (std::uint64_t slot = plan.slots; slot-- > 0;) free_slots.push_back(slot);
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  const auto post_all = [&](Engine& engine) -> Status {
    for (; posted < plan.messages && !free_slots.empty(); ++posted) {
      const std::uint64_t slot = free_slots.back();
      free_slots.pop_back();
      const MemoryRef memory{&ring, plan.slot_offset(slot), plan.message_bytes};
      if (const Status one = post(engine, sending, kBulk, memory, slot); !one) return one;
    }
    return {};
  };
  while (done < plan.messages) {
    if (const Status all = post_with(driver(), post_all); !all) return all;
    if (const Status waited = await_tokens(); !waited) return waited;
    free_slots.insert(free_slots.end(), tokens_.begin(), tokens_.end());
    done += tokens_.size();
  }
  return {};
}

Status BenchEnd::ping(std::uint64_t roundtrips) {
  const auto post_both = [&](Engine& engine) -> Status {
    if (const Status receiving = post_ping_receive(engine); !receiving) return receiving;
    return post_ping(engine);
  };
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    if (const Status posted = post_with(driver(), post_both); !posted) return posted;
    if (const Status answered = await_ping(); !answered) return answered;
  }
  return {};
}

Status BenchEnd::pong(std::uint64_t roundtrips) {
  if (roundtrips == 0) return {};
  const auto post_first = [&](Engine& engine) { return post_ping_receive(engine); };
  if (const Status posted = post_with(driver(), post_first); !posted) return posted;
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    if (const Status asked = await_ping(); !asked) return asked;
    const auto post_answer = [&](Engine& engine) -> Status {
      const Status sent = post_ping(engine);
      return sent && i + 1 < roundtrips ? post_ping_receive(engine) : sent;
    };
    if (const Status posted = post_with(driver(), post_answer); !posted) return posted;
  }
  return {};
}

Status BenchEnd::post(Engine& engine, bool sending, StreamId stream, MemoryRef memory, std::uint64_t token) {
  Session& session = engine.session(met_.peer);
  const auto posted =
      sending ? session.send(kGroup, stream, memory, 0, token) : session.receive(kGroup, stream, memory, 0, token);
  if (!posted) return std::unexpected(posted.error());
  return {};
}

Status BenchEnd::post_ping(Engine& engine) {
  return post(engine, true, kPing, {&ping_out_region_, 0, kPingBytes}, kPingOutToken);
}

Status BenchEnd::post_ping_receive(Engine& engine) {
  return post(engine, false, kPing, {&ping_in_region_, 0, kPingBytes}, kPingInToken);
}

Status BenchEnd::await_tokens() {
  tokens_.clear();
  Status failure;
  const auto harvest = [&](Engine& engine) {
    for (const Completion& completion : engine.session(met_.peer).take_completions()) {
      if (!completion.status) failure = completion.status;
      tokens_.push_back(completion.token);
    }
    return !tokens_.empty();
  };
  if (!driver().wait_until(harvest, steady_now() + kSilenceMax))
    return fail(Fault::kPeerDown, fmt::format("nothing completed within {:.0f} s", to_seconds(kSilenceMax)));
  return failure;
}

Status BenchEnd::await_ping() {
  for (;;) {
    if (const Status waited = await_tokens(); !waited) return waited;
    if (std::ranges::count(tokens_, kPingInToken) > 0) return {};
  }
}

}  // namespace r2ccl::apps
