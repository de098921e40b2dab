// The root keeps a record per process and a connection per link; they meet at REGISTER.
//
//   record        connection   meaning
//   none          unregistered a connection came in and has not said who it is
//   here          registered   member; gets ROSTER (once complete), GONE, BACK, notices
//   away          none         its connection ended without BYE: GONE to the others, BACK when it registers again
//   left          none         it said BYE: silence

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "control/control.h"
#include "control/control_wire.h"

namespace r2ccl {

struct ControlRoot::Impl final : FrameSink {
  struct Connection {
    std::unique_ptr<Link> link;
    Instant accepted_at{}, heard_at{}, sent_at{};
    std::optional<ProcessId> process;        // set by REGISTER
    std::optional<std::size_t> roster_next;  // next member of the roster to send; nullopt: nothing to send
    std::set<ProcessId> presence;            // processes whose GONE or BACK is still to be sent
    bool reach_owed = false;                 // REACH is still to be said
    bool over = false;                       // to be closed at the end of its step
  };
  struct Record {
    ProcessInfo info;
    Connection* connection = nullptr;
    bool left = false;
  };

  Impl(std::size_t expected_count, std::vector<Address> listeners, Log& log_sink, const ControlLimits& limit_values)
      : expected(std::min(expected_count, kRosterMax)),
        reach(std::move(listeners)),
        log(log_sink),
        limits(limit_values) {}

  std::size_t expected;
  const std::vector<Address> reach;
  Log& log;
  ControlLimits limits;
  std::vector<std::unique_ptr<Connection>> connections;
  std::map<ProcessId, Record> records;
  std::vector<ProcessInfo> roster;  // by rank, then process; empty until complete
  std::vector<ProcessId> left;      // said BYE since the roster was complete
  Connection* current = nullptr;    // its link is being stepped
  bool finished = false;
  std::size_t roster_parts_left = 0;  // that this step may still send
  std::size_t refusals = 0;
  std::uint64_t notices_dropped = 0;
  std::uint64_t garbage = 0;

  void note(LogLevel level, const std::string& line) {
    if (log.enabled(level)) log.write(level, line);
  }

  // ---- what comes in ----
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }

  void on_frame(Link&, const FrameHeader& header, ByteView body, Payload) override {
    Connection& from = *current;
    if (from.over) return;
    switch (static_cast<ControlFrame>(header.type)) {
      case ControlFrame::kRegister:
        return on_register(from, body);
      case ControlFrame::kNotice:
        return on_notice(from, body);
      case ControlFrame::kBye:
        return on_bye(from);
      case ControlFrame::kHeartbeat:
        return;
      default:
        ++garbage;
    }
  }

  void on_register(Connection& from, ByteView body) {
    const auto parsed = parse_register(body);
    if (!parsed) return refuse(from, "its registration can not be read");
    if (parsed->version != kControlVersion) {
      return refuse(from,
                    fmt::format("it speaks control version {}, this job speaks {}", parsed->version, kControlVersion));
    }
    const ProcessInfo& info = parsed->info;
    if (info.process != from.link->hello().from)
      return refuse(from, "it registers another process than the one that connected");
    if (const auto why = settle_size(parsed->expected)) return refuse(from, *why);
    if (const auto why = admit(info)) return refuse(from, *why);

    Record& record = records[info.process];
    if (roster.empty()) record.info = info;
    record.left = false;
    if (record.connection != &from) {
      const bool was_away = record.connection == nullptr;
      if (!was_away) retire(*record.connection);
      record.connection = &from;
      from.process = info.process;
      if (was_away && complete()) announce(info.process);
    }
    from.reach_owed = !reach.empty();
    if (complete()) {
      welcome(from);
    } else if (records.size() == expected && std::ranges::none_of(records, is_away)) {
      close_roster();
    }
  }

  // A member says how many processes its job has (0: it does not say). The first number decides. Returns why the member
  // can not be of this job, or nullopt.
  std::optional<std::string> settle_size(std::uint32_t said) {
    if (expected == 0 && said == 0) return "neither it nor the root knows how many processes the job has";
    if (said > kRosterMax) return fmt::format("a job has at most {} processes, not {}", kRosterMax, said);
    if (expected == 0) expected = said;
    if (said == 0 || said == expected) return std::nullopt;
    return fmt::format("it expects {} processes, this job has {}", said, expected);
  }

  // Returns why this process can not be a member, or nullopt. Makes room by forgetting a process that registered and
  // went away before the job was complete: one of the same rank first, because it was started again; else, once all
  // places are taken, any.
  std::optional<std::string> admit(const ProcessInfo& info) {
    if (records.contains(info.process)) return std::nullopt;
    if (complete()) return fmt::format("the job is complete with {} processes and it is none of them", expected);
    auto place = std::ranges::find_if(records, [&](const auto& entry) { return entry.second.info.rank == info.rank; });
    if (place != records.end() && place->second.connection != nullptr) {
      return fmt::format("rank {} is already taken by a process on {}", info.rank, place->second.info.host);
    }
    if (place == records.end() && records.size() >= expected) place = std::ranges::find_if(records, is_away);
    if (place != records.end()) records.erase(place);
    return std::nullopt;
  }
  static bool is_away(const std::pair<const ProcessId, Record>& entry) { return entry.second.connection == nullptr; }

  void on_notice(Connection& from, ByteView body) {
    const auto notice = parse_notice(body);
    if (!notice || !from.process) {
      ++garbage;
      return;
    }
    const auto to = records.find(notice->process);
    Connection* connection = to == records.end() ? nullptr : to->second.connection;
    if (connection == nullptr ||
        !post(*connection, ControlFrame::kNotice, encode_notice(*from.process, notice->kind, notice->bytes))) {
      ++notices_dropped;
    }
  }

  void on_bye(Connection& from) {
    from.over = true;
    if (!from.process) return;
    const auto record = records.find(*from.process);
    from.process.reset();
    record->second.connection = nullptr;
    record->second.left = true;
    if (complete()) {
      left.push_back(record->first);
    } else {
      records.erase(record);
    }
  }

  // ---- what goes out ----
  bool post(Connection& to, ControlFrame type, ByteView body) {
    if (!post_control(*to.link, type, body)) return false;
    posted = true;
    return true;
  }
  bool posted = false;  // something waits in a link's queue for its next step

  void refuse(Connection& from, const std::string& why) {
    const std::string sentence = fmt::format("The root refuses process {}: {}.", to_text(from.link->hello().from), why);
    if (refusals++ < limits.refusals_logged) note(LogLevel::kWarn, sentence);
    post(from, ControlFrame::kRefuse, encode_refusal(sentence));
    from.over = true;
  }

  void close_roster() {
    for (const auto& [process, record] : records) roster.push_back(record.info);
    std::ranges::sort(roster, {}, [](const ProcessInfo& info) { return std::pair(info.rank, info.process); });
    note(LogLevel::kInfo, fmt::format("Rendezvous of {} processes is complete.", roster.size()));
    for (auto& [process, record] : records) {
      if (record.connection != nullptr) welcome(*record.connection);
    }
  }

  void welcome(Connection& to) {
    to.roster_next = 0;
    to.presence.clear();
    for (const auto& [process, record] : records) {
      if (record.connection == nullptr && !record.left) to.presence.insert(process);
    }
  }

  void announce(ProcessId process) {
    for (auto& [other, record] : records) {
      if (other != process && record.connection != nullptr) record.connection->presence.insert(process);
    }
  }

  // Sends the state that this member does not know yet, as far as its queue takes it.
  void flush(Connection& to) {
    if (to.reach_owed) to.reach_owed = !post(to, ControlFrame::kReach, encode_reach(reach));
    while (to.roster_next) {
      if (roster_parts_left == 0) return;  // the next step goes on: this one has posted
      --roster_parts_left;
      std::size_t next = 0;
      const Bytes part = encode_roster_part(roster, *to.roster_next, next);
      if (!post(to, ControlFrame::kRoster, part)) return;
      to.roster_next = next;
      if (next == roster.size()) to.roster_next.reset();
    }
    while (!to.presence.empty()) {
      const ProcessId process = *to.presence.begin();
      const Record& record = records.at(process);
      const bool here = record.connection != nullptr;
      if (here || !record.left) {
        if (!post(to, here ? ControlFrame::kBack : ControlFrame::kGone, encode_process(process))) return;
      }
      to.presence.erase(process);
    }
  }

  // ---- connections ----
  // Ends a connection because a newer one of the same process took over.
  void retire(Connection& old) {
    old.process.reset();
    old.over = true;
  }

  void on_lost(Connection& connection) {
    if (!connection.process) return;
    const auto record = records.find(*connection.process);
    connection.process.reset();
    record->second.connection = nullptr;
    if (!complete()) return;
    note(LogLevel::kInfo, fmt::format("Control connection of rank {} ({}) is gone: {}", record->second.info.rank,
                                      record->second.info.host, connection.link->error()));
    announce(record->first);
  }

  // Steps one connection. False: it is over and can be dropped.
  bool step(Connection& connection, Instant now, Turn& turn) {
    current = &connection;
    Heard heard(*this);
    turn.moved |= connection.link->step(now, heard);
    current = nullptr;
    if (heard.any) connection.heard_at = now;
    const bool late = !connection.process && now >= connection.accepted_at + limits.register_within;
    const bool silent = now >= connection.heard_at + limits.silence;
    if (connection.over || connection.link->state() == LinkState::kDown || late || silent) {
      on_lost(connection);
      connection.link->close();
      turn.moved = true;
      return false;
    }
    flush(connection);
    if (now >= connection.sent_at + limits.heartbeat) {
      connection.sent_at = now;
      post(connection, ControlFrame::kHeartbeat, {});
    }
    turn.merge({false, connection.sent_at + limits.heartbeat});
    turn.merge({false, connection.heard_at + limits.silence});
    return true;
  }

  // Notes that anything at all was heard, then passes it on.
  struct Heard final : FrameSink {
    explicit Heard(Impl& root) : impl(root) {}
    Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
    void on_frame(Link& link, const FrameHeader& header, ByteView body, Payload payload) override {
      any = true;
      impl.on_frame(link, header, body, payload);
    }
    Impl& impl;
    bool any = false;
  };

  bool complete() const { return !roster.empty(); }
};

ControlRoot::ControlRoot(std::size_t expected, std::vector<Address> reach, Log& log, const ControlLimits& limits)
    : impl_(std::make_unique<Impl>(expected, std::move(reach), log, limits)) {}
ControlRoot::~ControlRoot() = default;

void ControlRoot::accept(std::unique_ptr<Link> link, Instant now) {
  if (impl_->finished) {
    post_control(*link, ControlFrame::kBye, {});
    link->close();
    return;
  }
  auto& connections = impl_->connections;
  const auto unregistered = [](const auto& c) { return !c->process.has_value(); };
  if (static_cast<std::size_t>(std::ranges::count_if(connections, unregistered)) >= impl_->limits.unregistered_max) {
    connections.erase(std::ranges::find_if(connections, unregistered));
  }
  auto connection = std::make_unique<Impl::Connection>();
  connection->link = std::move(link);
  connection->accepted_at = connection->heard_at = connection->sent_at = now;
  connections.push_back(std::move(connection));
}

Turn ControlRoot::step(Instant now) {
  Turn turn;
  impl_->posted = false;
  impl_->roster_parts_left = impl_->limits.roster_parts_per_step;
  auto& connections = impl_->connections;
  // Frames of one connection may retire another that was stepped before it; that one goes in the next step.
  for (std::size_t i = 0; i < connections.size();) {
    if (impl_->step(*connections[i], now, turn)) {
      ++i;
    } else {
      connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  turn.moved |= impl_->posted;
  return turn;
}

bool ControlRoot::complete() const {
  return impl_->complete();
}

void ControlRoot::finish() {
  impl_->finished = true;
  for (auto& connection : impl_->connections) {
    post_control(*connection->link, ControlFrame::kBye, {});
    connection->link->close();
  }
  impl_->connections.clear();
  for (auto& [process, record] : impl_->records) record.connection = nullptr;
}

bool ControlRoot::everybody_left() const {
  return std::ranges::all_of(impl_->records, Impl::is_away);
}

const std::vector<ProcessId>& ControlRoot::left() const {
  return impl_->left;
}

std::uint64_t ControlRoot::notices_dropped() const {
  return impl_->notices_dropped;
}

}  // namespace r2ccl
