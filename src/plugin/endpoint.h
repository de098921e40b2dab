#pragma once
// One direction of a process's traffic: an engine of its own for what it sends, another for what it receives. So ranks
// in one process can talk to each other, and sending does not wait for receiving.
//
// Life       A connection is a rendezvous of two, hosted by the receiving end, then a group on the session of the two
//            processes.
// Ownership  Owns its connections, also those that NCCL has closed and that still say goodbye.
// Threads    Any; requests of one connection from one thread at a time. Requests are handed to whoever drives the
//            engine through a queue, so that a caller never waits for data to move. Only what is there already is
//            copied by the caller (net_comm.h).

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/unique_id.h"
#include "env/settings.h"
#include "plugin/net_comm.h"
#include "plugin/repair_log.h"
#include "runtime/threads/process.h"

namespace r2ccl::plugin {

class Endpoint final : private EngineTask {
 public:
  static Result<std::unique_ptr<Endpoint>> create(const Settings& settings, Log& log);
  ~Endpoint() override;  // says goodbye first
  // Once: waits at most a second for receivers that have not closed, and Process::kFinishMax. The endpoint's thread
  // ends. Calls that come all the same are harmless and without effect.
  void say_goodbye();

  struct Listening {
    NetComm* connection;
    UniqueId id;
  };
  Result<Listening> listen();
  NetComm* connect(const UniqueId& id);
  // The caller's memory is in use until the request is over.
  void submit(NetRequest& request);
  void poll() {
    if (!gone_) process_->driver().poll();
  }
  // The caller uses the connection no more. Afterwards no memory of its requests is touched.
  void close(NetComm& connection);

 private:
  // What callers have asked for and the engine has not seen yet: a request, or the copy of a message to send.
  struct Asked {
    NetComm* connection;
    NetRequest* request;
    SendCopy* copy;
  };

  Endpoint(Log& log, std::unique_ptr<Process> process);
  void on_completion(ProcessId peer, const Completion& completion) override;
  void on_early(Session& session, EarlyMessage message) override;
  void on_notice(ProcessId, ByteView) override {}
  Turn step(Instant now) override;

  NetComm& add(Engine& engine, NetComm::Side side, const UniqueId& id);
  void meet(NetComm& connection, Turn& turn);
  void join(NetComm& connection);
  const ProcessInfo& peer_of(const NetComm& connection) const;  // once they have met
  void keep_one_rendezvous(ProcessId peer, KeyId key);
  bool post_queued();
  bool post(const Asked& asked);
  bool post_request(NetRequest& request);
  bool post_copy(NetComm& connection, SendCopy& copy);
  bool post_part(NetComm& connection, NetRequest& request, int part);
  bool serve(NetRequest& request);
  std::optional<EarlyMessage> next_early(NetComm& connection, StreamId stream);
  void end_early(NetRequest& request, int part, EarlyMessage message);
  void return_used();
  void end_part(NetRequest& request, int part, std::size_t moved, nccl::NetResult result);
  void fail_if_open(NetComm& connection, const Completion& completion);
  void on_bye(NetComm& connection, const Completion& completion);
  void say_bye(NetComm& connection);
  bool send_bye(NetComm& connection);
  void judge_closed(NetComm& connection);
  void lose(NetComm& connection, const Error& error);
  void fail_connection(NetComm& connection, nccl::NetResult result, const std::string& why);
  static nccl::NetResult result_of(const NetComm& connection, const Error& error);
  void end(NetComm& connection);
  void sweep();
  std::string name_of(PathId path, ProcessId peer) const;

  Log& log_;
  std::unique_ptr<Process> process_;
  std::atomic<bool> gone_ = false;

  std::mutex queue_mutex_;
  std::vector<Asked> queue_;
  std::atomic<bool> queued_ = false;
  struct Used {
    Session* session;
    EarlyMessage message;
  };
  std::mutex used_mutex_;
  std::vector<Used> used_;  // copied by callers; the next turn gives them back
  std::atomic<std::size_t> used_bytes_ = 0;

  // With the engine held.
  Engine* engine_ = nullptr;
  RepairLog repairs_;
  Instant now_{};
  Instant stepped_{};
  Turn last_turn_;
  std::map<GroupId, std::unique_ptr<NetComm>> connections_;
  std::map<ProcessId, KeyId> rendezvous_;  // of the processes that were met
  std::vector<NetComm*> meeting_;
  std::vector<NetComm*> waiting_;  // with give_up_
  std::vector<NetComm*> over_;
  std::vector<Asked> backlog_;  // taken from the queue, not given to a session yet
};

}  // namespace r2ccl::plugin
