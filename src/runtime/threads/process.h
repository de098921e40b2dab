#pragma once
// A whole real process: clock, randomness, log, NICs, TCP, faults on request, engine and driver, built from settings.
//
//   auto process = Process::create(settings, {.rank = 0});
//   auto id = (*process)->host(size);       // in one process; its hex text goes to the others
//   (*process)->join(id, 60s);              // in all of them
//   (*process)->driver().with_engine([](Engine& engine) { … });
//   (*process)->finish();
//
// Ownership  Owns all parts and destroys them in the right order.
// Threads    Any thread; the engine only through the driver.
// Failure    Whatever is wrong with the settings or the machine comes back as one sentence.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/unique_id.h"
#include "env/real/real.h"
#include "env/settings.h"
#include "runtime/engine.h"
#include "runtime/threads/driver.h"
#include "telemetry/telemetry.h"
#include "topology/discover/meeting_place.h"
#include "transport/fault/fault_provider.h"
#include "transport/stream/keyring.h"
#include "transport/stream/stream_provider.h"
#include "transport/tcp/tcp_dialer.h"

namespace r2ccl {

struct ProcessOptions {
  std::uint32_t rank = 0;
  std::string host;                   // label for people; empty: the host's name
  std::optional<MeetingPlace> place;  // where the job's processes were told to meet; nullopt: nowhere
  bool progress_thread = true;        // false: only callers drive
  Log* log = nullptr;                 // borrowed; null: stderr or the file that the settings name
  // The same in all processes of a job; see SessionLimits.
  std::size_t copy_bytes_max = SessionLimits{}.copy_bytes_max;
  std::size_t eager_message_max = SessionLimits{}.eager_message_max;
  std::size_t eager_bytes = SessionLimits{}.eager_bytes;
  // Each process may choose these for itself.
  bool callers_copy = false;
  bool hand_over_early = false;
};

class Process final {
 public:
  static constexpr Duration kFinishMax = 3s;

  // Listens on all NICs when it returns.
  static Result<std::unique_ptr<Process>> create(const Settings& settings, const ProcessOptions& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Becomes the root of a job of `expected` processes and makes its unique id. Call before join().
  Result<UniqueId> host(std::size_t expected);
  // The same at the place that the options name, for as many processes as its members say. kMisuse with one sentence
  // when the place is not on this server.
  Result<UniqueId> host_at_place(const Secret& secret);
  // Ends when all processes have joined, or with a sentence after `within`.
  Status join(const UniqueId& id, Duration within);
  // Sends what is left, says goodbye to everybody, and waits at most kFinishMax. True if that was enough time.
  bool finish();

  Driver& driver() { return *driver_; }
  Clock& clock() { return clock_; }
  Random& random() { return random_; }
  Log& log() { return log_; }
  // These three belong to the engine: use them inside Driver::with_engine() or a condition of wait_until().
  Telemetry& telemetry() { return telemetry_; }
  FaultProvider* faults() { return faults_.get(); }  // null unless the settings ask for one
  const StreamCounters& stream_counters() const { return streams_->counters(); }
  // Set before the engine begins and never changed.
  const ProcessInfo& self() const { return engine_->self(); }

 private:
  Process(const Settings& settings, std::unique_ptr<TcpDialer> dialer, const std::vector<FaultSpec>& faults,
          const EngineConfig& config, bool checksum, Log* log);

  std::optional<MeetingPlace> place_;
  std::optional<NicId> place_host_;  // the NIC of ours that listens at the place
  SteadyClock clock_;
  SodiumRandom random_;
  std::optional<StderrLog> own_log_;
  Log& log_;
  Telemetry telemetry_;
  Keyring keyring_;
  std::unique_ptr<TcpDialer> dialer_;
  std::unique_ptr<StreamProvider> streams_;
  std::unique_ptr<FaultProvider> faults_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Driver> driver_;
};

// Whether payloads carry a checksum. R2CCL_CHECKSUM is on, off, or wire: off where every NIC is a loopback address,
// because no wire can damage them there.
bool checks_payloads(const Settings& settings, std::span<const Nic> nics);

// Which server a process is on: R2CCL_SERVER, else derived from NCCL_HOSTID, else from the host's name and boot.
ServerId server_of(const Settings& settings);

}  // namespace r2ccl
