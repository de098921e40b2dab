#include "runtime/engine.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "runtime/rendezvous.h"

namespace r2ccl {

struct Engine::Impl final : NoticeSender, ProcessKeys {
  struct WaitingLink {
    std::unique_ptr<Link> link;
    Instant until;
  };
  // kRunning → finish() → kSessions → every session said goodbye → kControl → every rendezvous is over → kDone
  enum class Stage : std::uint8_t { kRunning, kSessions, kControl, kDone };

  Impl(Env env_parts, Provider& link_provider, Keyring& secrets, Telemetry& tele, const EngineConfig& configuration,
       ProcessInfo& me)
      : env(env_parts), provider(link_provider), keyring(secrets), telemetry(tele), config(configuration), self(me) {}

  Env env;
  Provider& provider;
  Keyring& keyring;
  Telemetry& telemetry;
  const EngineConfig config;
  ProcessInfo& self;

  std::map<KeyId, Rendezvous> meetings;
  std::vector<ProcessInfo> roster;  // every process ever met, in that order
  std::map<ProcessId, KeyId> keys;  // the key of the first meeting with each
  std::unique_ptr<Judge> judge;     // made once anybody is known
  std::map<ProcessId, std::unique_ptr<Session>> sessions;
  std::set<NicId> drained;
  std::set<NicId> without_carrier;
  std::uint64_t carrier_changes = 0;  // here and at peers
  std::map<GroupId, EngineTask*> tasks;
  std::deque<WaitingLink> early;   // data links that came before the roster
  std::deque<WaitingLink> probes;  // answered; the other end closes first, so that it is sure to hear the answer
  Stage stage = Stage::kRunning;
  Instant last_step{};
  bool dirty = true;      // the chores have something to do
  Instant next_chores{};  // when they will have something to do
  Instant last_chores{};
  Instant provider_next{};              // when links may have something although the provider does not say so
  std::vector<Completion> completions;  // kept for its memory
  const std::vector<Verdict> no_verdicts;

  void note(LogLevel level, const std::string& line) {
    if (env.log.enabled(level)) env.log.write(level, line);
  }

  void send_notice(ProcessId to, NoticeKind kind, ByteView bytes) override {
    if (kind == NoticeKind::kSession) return send_by_control(to, kind, bytes);
    // Data paths or the control network may be what broke. A notice that may come twice takes both.
    const auto found = sessions.find(to);
    const bool told = found != sessions.end() && found->second->tell(static_cast<std::uint8_t>(kind), bytes);
    const bool repeatable =
        kind == NoticeKind::kObservation || kind == NoticeKind::kVerdict || kind == NoticeKind::kApplication;
    if (!told || repeatable) send_by_control(to, kind, bytes);
  }
  KeyId key_for(ProcessId process) const override {
    const auto found = keys.find(process);
    return found == keys.end() ? KeyId{} : found->second;
  }

  // Sends through a rendezvous that both are in, and one that is connected if there is any.
  void send_by_control(ProcessId to, NoticeKind kind, ByteView bytes) {
    dirty = true;
    Rendezvous* way = nullptr;
    for (auto& [key, meeting] : meetings) {
      if (meeting.names(to) && (way == nullptr || !way->connected())) way = &meeting;
    }
    if (way != nullptr) way->send(to, kind, bytes);
  }

  // ---- sessions ----
  const ProcessInfo* find(ProcessId process) const {
    const auto info = std::ranges::find(roster, process, &ProcessInfo::process);
    return info == roster.end() ? nullptr : &*info;
  }

  // The session with this process, made if need be. Null: it is no other process of the roster, or we are finishing.
  Session* session_with(ProcessId peer, Instant now) {
    if (const auto found = sessions.find(peer); found != sessions.end()) return found->second.get();
    const ProcessInfo* info = find(peer);
    if (info == nullptr || peer == self.process || stage != Stage::kRunning) return nullptr;
    auto made =
        std::make_unique<Session>(self, *info, keys.at(peer), provider, *this, env.log, telemetry, config.session);
    for (const NicId nic : drained) made->drain(nic, now);
    for (const NicId nic : without_carrier) made->on_nic_event({nic, false}, now);
    // Only the process with the lower id connects, so it must hear that we want to talk. The notice is empty: at the
    // other end it makes the session, which has nothing to read.
    if (self.process > peer) send_notice(peer, NoticeKind::kSession, {});
    return sessions.emplace(peer, std::move(made)).first->second.get();
  }

  // `came`: there may be something for any link. If not, sessions that have nothing to do are left alone.
  Turn step_sessions(Instant now, bool came) {
    Turn turn;
    for (auto& [peer, session] : sessions) {
      if (!came && session->idle(now)) {
        turn.merge({false, session->next_timer()});
        continue;
      }
      turn.merge(session->step(now));
      if (session->take_carrier_news()) ++carrier_changes;
      for (const Observation& seen : session->take_observations()) {
        dirty = true;
        if (session->state() != SessionState::kActive) continue;
        judge->on_observation(peer, seen, now);
        doubt(seen, *session, now);
      }
      for (const Session::Notice& notice : session->take_notices()) {
        on_notice(peer, static_cast<NoticeKind>(notice.kind), notice.bytes, now);
      }
    }
    return turn;
  }

  // A NIC here lost a path of one session. The other sessions try their paths now, before they need them.
  void doubt(const Observation& seen, const Session& by, Instant now) {
    for (const NicName& end : {seen.here, seen.there}) {
      if (end.server != self.server) continue;
      for (auto& [peer, session] : sessions)
        if (session.get() != &by) session->doubt(end.nic, now);
    }
  }

  void on_notice(ProcessId from, NoticeKind kind, ByteView bytes, Instant now) {
    dirty = true;
    if (kind != NoticeKind::kApplication) return judge->on_notice(from, kind, bytes, now);
    Reader in(bytes);
    const auto task = tasks.find(GroupId{in.get<std::uint64_t>()});
    if (in.ok() && task != tasks.end()) task->second->on_notice(from, bytes.subspan(sizeof(std::uint64_t)));
  }

  // The paths of a session that ends go down with it, and that is no NIC's fault.
  void excuse_ended() {
    for (auto& [peer, session] : sessions) {
      if (session->state() != SessionState::kActive) judge->excuse(peer);
    }
  }

  // ---- links that came in ----
  bool accept_links(Instant now) {
    bool any = false;
    for (std::size_t i = 0; i < EngineLimits::kAcceptsPerStep; ++i) {
      auto link = provider.accept();
      if (!link) break;
      route(std::move(link), now);
      any = true;
    }
    return any;
  }

  void route(std::unique_ptr<Link> link, Instant now) {
    const Hello& hello = link->hello();
    const bool for_us = hello.to == self.process || hello.to == ProcessId{};
    switch (hello.purpose) {
      case Purpose::kControl:
        if (const auto meeting = meetings.find(hello.key); meeting != meetings.end())
          return meeting->second.accept(std::move(link), now);
        break;
      case Purpose::kProbe:
        return keep(probes, std::move(link), now + EngineLimits::kProbeLinkTime, EngineLimits::kProbeLinksMax);
      case Purpose::kData:
        if (!for_us) break;
        if (find(hello.from) == nullptr && (roster.empty() || waits_for_roster()))
          return keep(early, std::move(link), now + EngineLimits::kEarlyLinkTime, EngineLimits::kEarlyLinksMax);
        if (Session* session = session_with(hello.from, now)) return session->accept(std::move(link), now);
        break;
    }
    note(LogLevel::kDebug,
         fmt::format("Connection from process {} is not for this process; closed.", to_text(hello.from)));
    link->close();
  }

  // When there are too many, the oldest is dropped.
  static void keep(std::deque<WaitingLink>& links, std::unique_ptr<Link> link, Instant until, std::size_t max) {
    if (links.size() >= max) links.pop_front();
    links.push_back({std::move(link), until});
  }

  Turn step_waiting_links(Instant now) {
    Turn turn;
    std::erase_if(early, [&](const WaitingLink& waiting) { return now >= waiting.until; });
    IgnoreFrames ignore;
    std::erase_if(probes, [&](WaitingLink& waiting) {
      turn.moved |= waiting.link->step(now, ignore);
      const bool over = waiting.link->state() == LinkState::kDown || now >= waiting.until;
      if (over) waiting.link->close();
      return over;
    });
    for (const WaitingLink& waiting : early) turn.merge({false, waiting.until});
    for (const WaitingLink& waiting : probes) turn.merge({false, waiting.until});
    return turn;
  }

  // ---- NICs ----
  bool take_nic_events(Instant now) {
    bool any = false;
    while (const auto event = provider.next_event()) {
      any = true;
      const bool news = event->up ? without_carrier.erase(event->nic) > 0 : without_carrier.insert(event->nic).second;
      if (news) ++carrier_changes;
      for (auto& [peer, session] : sessions) session->on_nic_event(*event, now);
    }
    return any;
  }

  // ---- control ----
  Rendezvous& meeting(KeyId key) {
    dirty = true;
    return meetings.try_emplace(key, key, provider, env.log).first->second;
  }
  const Rendezvous& known(KeyId key) const {
    const auto found = meetings.find(key);
    R2CCL_ASSERT(found != meetings.end(), "a rendezvous that was not joined, or was left");
    return found->second;
  }

  bool waits_for_roster() const {
    return std::ranges::any_of(
        meetings, [](const auto& entry) { return entry.second.joined() && entry.second.roster().empty(); });
  }

  Turn step_control(Instant now) {
    Turn turn;
    for (auto it = meetings.begin(); it != meetings.end();) {
      Rendezvous& meeting = it->second;
      const bool waited = meeting.roster().empty();
      turn.merge(meeting.step(now));
      if (waited && !meeting.roster().empty()) on_roster(meeting, now);
      for (const ControlEvent& event : meeting.take_events()) {
        if (judge) on_control_event(event, now);
        turn.moved = true;
      }
      it = meeting.over() ? forget(it) : std::next(it);
    }
    return turn;
  }

  // The secret of a meeting with others stays in the keyring. A process dials and probes us with the secret of the
  // meeting where it first met us, and we do not know which one that was.
  std::map<KeyId, Rendezvous>::iterator forget(std::map<KeyId, Rendezvous>::iterator it) {
    if (it->second.roster().size() <= 1) keyring.remove(it->first);
    return meetings.erase(it);
  }

  void on_roster(const Rendezvous& meeting, Instant now) {
    for (const ProcessInfo& process : meeting.roster()) {
      if (keys.emplace(process.process, meeting.key()).second) roster.push_back(process);
    }
    if (!judge) {
      const JudgeConfig judge_config{config.session.fabric, config.probe_timeout};
      judge = std::make_unique<Judge>(self, roster, provider, *this, *this, env.log, telemetry, judge_config);
    }
    for (auto& waiting : std::exchange(early, {})) route(std::move(waiting.link), now);
  }

  // ---- tasks ----
  Turn step_tasks(Instant now) {
    Turn turn;
    if (tasks.empty()) return turn;
    for (auto& [peer, session] : sessions) {
      if (session->has_early()) deliver_early(*session);
      if (!session->has_completions()) continue;
      session->take_completions(completions);
      for (const Completion& completion : completions) {
        const auto task = tasks.find(completion.group);
        if (task != tasks.end()) task->second->on_completion(peer, completion);
      }
    }
    const EngineTask* last = nullptr;
    for (auto it = tasks.begin(); it != tasks.end();) {
      if (it->second == last) {
        ++it;
        continue;
      }
      const GroupId group = it->first;
      last = it->second;
      turn.merge(it->second->step(now));
      it = tasks.upper_bound(group);  // it may detach itself and others
    }
    if (turn.moved) step_sessions(now, false);
    return turn;
  }

  void deliver_early(Session& session) {
    for (EarlyMessage& message : session.take_early()) {
      const auto task = tasks.find(message.key.group);
      if (task == tasks.end()) {
        session.give_back(std::move(message));
      } else {
        task->second->on_early(session, std::move(message));
      }
    }
  }

  void on_control_event(const ControlEvent& event, Instant now) {
    switch (event.kind) {
      case ControlEvent::Kind::kGone:
        judge->on_gone(event.process);
        if (const auto found = sessions.find(event.process); found != sessions.end()) found->second->on_control_gone();
        return;
      case ControlEvent::Kind::kBack:
        judge->on_back(event.process);
        if (const auto found = sessions.find(event.process); found != sessions.end()) found->second->on_control_back();
        return;
      case ControlEvent::Kind::kNotice:
        break;
    }
    if (event.notice == NoticeKind::kSession) {
      Session* session = session_with(event.process, now);
      if (session != nullptr && !event.bytes.empty()) session->on_notice(event.bytes, now);
    } else {
      on_notice(event.process, event.notice, event.bytes, now);
    }
  }

  // ---- chores ----
  // Everything that no message waits for. Done only when something came or was asked for, or when its time is up.
  void do_chores(Instant now) {
    Turn turn;
    dirty = false;
    last_chores = now;
    if (judge) {
      excuse_ended();
      turn.merge(judge->step(now));
    }
    turn.merge(step_waiting_links(now));
    turn.merge(step_control(now));
    turn.merge(step_finishing(now));
    dirty |= turn.moved;
    next_chores = turn.next;
  }

  // ---- the end ----
  Turn step_finishing(Instant now) {
    Turn turn;
    if (stage == Stage::kSessions &&
        std::ranges::all_of(sessions, [](const auto& entry) { return is_over(*entry.second); })) {
      for (auto& [key, meeting] : meetings) meeting.leave(true, now);
      stage = Stage::kControl;
      turn.moved = true;
    }
    if (stage != Stage::kControl || !meetings.empty()) return turn;
    stage = Stage::kDone;
    turn.moved = true;
    return turn;
  }
  static bool is_over(const Session& session) {
    return session.state() == SessionState::kFinished || session.state() == SessionState::kPeerDown;
  }
};

Engine::Engine(Env env, Provider& provider, Keyring& keyring, Telemetry& telemetry, ProcessId self,
               const EngineConfig& config)
    : self_{self, config.server, config.rank, config.host, {}},
      impl_(std::make_unique<Impl>(env, provider, keyring, telemetry, config, self_)) {}
Engine::~Engine() = default;

Status Engine::listen() {
  std::string last;
  for (const Nic& nic : impl_->provider.nics()) {
    if (nic.id == impl_->config.management_nic) continue;  // host_at() listens there if need be
    const auto address = impl_->provider.listen(nic.id, 0);
    if (!address) {
      last = address.error().what;
      impl_->note(LogLevel::kWarn, fmt::format("NIC {} is left out: {}", nic.name, last));
      continue;
    }
    if (!nic.carrier)
      impl_->note(LogLevel::kWarn, fmt::format("NIC {} has no carrier; it joins when it has.", nic.name));
    self_.ports.push_back({nic.id, nic.name, *address, nic.speed_bytes_s});
  }
  if (self_.ports.empty()) {
    return fail(Fault::kPathDown,
                last.empty() ? "There is no NIC to listen on." : "No NIC can listen; the last said: " + last);
  }
  return {};
}

Result<UniqueId> Engine::host(std::size_t expected, const Place* place) {
  if (expected > kRosterMax) {
    return fail(Fault::kMisuse, fmt::format("A job has at most {} processes, not {}.", kRosterMax, expected));
  }
  std::vector<Address> reach;
  for (const ProcessInfo::Port& port : self_.ports) reach.push_back(port.listen);
  std::vector<Address> addresses = reach;
  if (place != nullptr) {
    const auto address = impl_->provider.listen(place->nic, place->port);
    if (!address) return std::unexpected(address.error());
    addresses.insert(addresses.begin(), *address);
  }
  UniqueId id = UniqueId::make(impl_->env.random, std::move(addresses));
  if (place != nullptr) id.place = {id.root.front()};
  if (place != nullptr && place->secret) id.secret = *place->secret;
  impl_->meeting(impl_->keyring.add(id.secret)).host(expected, std::move(reach));
  return id;
}

KeyId Engine::join(const UniqueId& id, std::uint32_t rank, std::uint32_t expected) {
  ControlNics nics{.data = {}, .place = impl_->config.place_nic};
  for (const ProcessInfo::Port& port : self_.ports) nics.data.push_back(port.nic);
  ProcessInfo member = self_;
  member.rank = rank;
  const KeyId key = impl_->keyring.add(id.secret);
  impl_->meeting(key).join(member, id, expected, std::move(nics));
  return key;
}

bool Engine::ready(KeyId rendezvous) const {
  return !roster(rendezvous).empty();
}
bool Engine::ready() const {
  return !impl_->roster.empty() && !impl_->waits_for_roster();
}
const std::vector<ProcessInfo>& Engine::roster(KeyId rendezvous) const {
  return impl_->known(rendezvous).roster();
}
const std::vector<ProcessInfo>& Engine::roster() const {
  return impl_->roster;
}
const std::string& Engine::join_failure(KeyId rendezvous) const {
  return impl_->known(rendezvous).failure();
}
std::optional<ControlWay> Engine::control_way(KeyId rendezvous) const {
  return impl_->known(rendezvous).way();
}
const std::vector<ProcessId>& Engine::left(KeyId rendezvous) const {
  return impl_->known(rendezvous).left();
}
void Engine::leave(KeyId rendezvous, Instant now) {
  impl_->dirty = true;
  if (const auto found = impl_->meetings.find(rendezvous); found != impl_->meetings.end())
    found->second.leave(false, now);
}

void Engine::attach(GroupId group, EngineTask& task) {
  R2CCL_ASSERT(impl_->tasks.emplace(group, &task).second, "one task per group");
}
void Engine::detach(GroupId group) {
  impl_->tasks.erase(group);
}

Session& Engine::session(ProcessId peer) {
  Session* session = impl_->session_with(peer, impl_->last_step);
  R2CCL_ASSERT(session != nullptr,
               "no session with process " + to_text(peer) + ": not another process of a running job");
  return *session;
}

std::uint64_t Engine::path_changes() const {
  const Counters& counters = impl_->telemetry.counters;
  return counters.paths_down + counters.paths_up + counters.paths_trusted + impl_->carrier_changes;
}

const std::set<NicId>& Engine::without_carrier() const {
  return impl_->without_carrier;
}

Session* Engine::find_session(ProcessId peer) {
  const auto found = impl_->sessions.find(peer);
  return found == impl_->sessions.end() ? nullptr : found->second.get();
}

void Engine::notify(ProcessId to, GroupId group, ByteView bytes) {
  Bytes body;
  Writer out(body);
  out.put(group.value);
  out.put(bytes);
  impl_->send_notice(to, NoticeKind::kApplication, body);
}

Turn Engine::step(Instant now) {
  // Control comes after the sessions, so that their notices leave in the same step. What control brings makes the step
  // count as moved, so that the sessions look at it in the next one.
  impl_->last_step = now;
  Turn turn = impl_->provider.step(now);
  const bool came = turn.moved || now >= std::exchange(impl_->provider_next, turn.next);
  if (came || now >= impl_->next_chores || impl_->stage != Impl::Stage::kRunning) impl_->dirty = true;
  if (came) {
    turn.moved |= impl_->accept_links(now);
    turn.moved |= impl_->take_nic_events(now);
  }
  Turn messages;
  if (impl_->judge) messages.merge(impl_->step_sessions(now, came));
  messages.merge(impl_->step_tasks(now));
  turn.merge(messages);
  // Whoever waits for a message should hear of it first. The chores wait for the next turn, which mostly brings none.
  const bool first = messages.moved && now < impl_->last_chores + EngineLimits::kChoresWait;
  if (impl_->dirty && !first) impl_->do_chores(now);
  turn.merge({impl_->dirty, impl_->next_chores});
  return turn;
}

void Engine::flush(Instant now) {
  if (!impl_->judge) return;
  if (!impl_->step_tasks(now).moved) impl_->step_sessions(now, false);
}

void Engine::drain(NicId nic, Instant now) {
  impl_->drained.insert(nic);
  for (auto& [peer, session] : impl_->sessions) session->drain(nic, now);
}

void Engine::undrain(NicId nic, Instant now) {
  impl_->drained.erase(nic);
  for (auto& [peer, session] : impl_->sessions) session->undrain(nic, now);
}

void Engine::finish(Instant now) {
  if (impl_->stage != Impl::Stage::kRunning) return;
  impl_->stage = Impl::Stage::kSessions;
  for (auto& [peer, session] : impl_->sessions) session->finish(now);
}

bool Engine::finished() const {
  return impl_->stage == Impl::Stage::kDone;
}

const std::vector<Verdict>& Engine::verdicts() const {
  return impl_->judge ? impl_->judge->verdicts() : impl_->no_verdicts;
}

}  // namespace r2ccl
