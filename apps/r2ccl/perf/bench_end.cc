#include "apps/r2ccl/perf/bench_end.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

constexpr GroupId kGroup{1};
constexpr StreamId kBulk{1};
constexpr StreamId kPing{2};
constexpr std::uint64_t kPingOutToken = ~0ull;
constexpr std::uint64_t kPingInToken = ~0ull - 1;

}  // namespace

BenchEnd::BenchEnd(const Settings& settings, const JobPlace& place, LineChannel& parent)
    : job_(join_job(settings, place, parent)) {
  peer_ = job_.roster.at(1 - place.rank).process;
  job_.process->driver().with_engine([&](Engine& engine) { engine.session(peer_).join(kGroup, job_.secret); });
}

void BenchEnd::stream(const CopyPlan& plan, Region& ring, bool sending) {
  std::vector<std::uint64_t> free_slots;
  for (std::uint64_t slot = plan.slots; slot-- > 0;) free_slots.push_back(slot);
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  while (done < plan.messages) {
    job_.process->driver().with_engine([&](Engine& engine) {
      for (; posted < plan.messages && !free_slots.empty(); ++posted) {
        const std::uint64_t slot = free_slots.back();
        free_slots.pop_back();
        post(engine, sending, kBulk, {&ring, plan.slot_offset(slot), plan.message_bytes}, slot);
      }
    });
    for (const std::uint64_t token : await_tokens()) {
      free_slots.push_back(token);
      ++done;
    }
  }
}

void BenchEnd::ping(std::uint64_t roundtrips) {
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    job_.process->driver().with_engine([&](Engine& engine) {
      post(engine, false, kPing, {&ping_in_region_, 0, kPingBytes}, kPingInToken);
      post(engine, true, kPing, {&ping_out_region_, 0, kPingBytes}, kPingOutToken);
    });
    await_ping();
  }
}

void BenchEnd::pong(std::uint64_t roundtrips) {
  const auto post_receive = [&](Engine& engine) {
    post(engine, false, kPing, {&ping_in_region_, 0, kPingBytes}, kPingInToken);
  };
  if (roundtrips > 0) job_.process->driver().with_engine(post_receive);
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    await_ping();
    job_.process->driver().with_engine([&](Engine& engine) {
      post(engine, true, kPing, {&ping_out_region_, 0, kPingBytes}, kPingOutToken);
      if (i + 1 < roundtrips) post_receive(engine);
    });
  }
}

void BenchEnd::post(Engine& engine, bool sending, StreamId stream, MemoryRef memory, std::uint64_t token) {
  Session& session = engine.session(peer_);
  const auto posted =
      sending ? session.send(kGroup, stream, memory, 0, token) : session.receive(kGroup, stream, memory, 0, token);
  if (!posted) throw Gone(posted.error().what);
}

const std::vector<std::uint64_t>& BenchEnd::await_tokens() {
  tokens_.clear();
  std::string failure;
  const auto harvest = [&](Engine& engine) {
    for (const Completion& completion : engine.session(peer_).take_completions()) {
      if (!completion.status) failure = completion.status.error().what;
      tokens_.push_back(completion.token);
    }
    return !tokens_.empty();
  };
  if (!job_.process->driver().wait_until(harvest, steady_now() + kSilenceMax))
    throw Gone(fmt::format("nothing completed within {:.0f} s", to_seconds(kSilenceMax)));
  if (!failure.empty()) throw Gone(failure);
  return tokens_;
}

void BenchEnd::await_ping() {
  bool arrived = false;
  while (!arrived) arrived = std::ranges::count(await_tokens(), kPingInToken) > 0;
}

}  // namespace r2ccl::apps
