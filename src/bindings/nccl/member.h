#pragma once
// One rank of one communicator as the C interface knows it, and the table of those that live.
//
// A ncclComm_t is looked up in the table before it is used and its address is never given to another communicator, so a
// handle that was destroyed, or never was one, is refused instead of followed.
//
//   state()      ncclInProgress   a non-blocking call runs
//                ncclSuccess      may be used
//                anything else    failed: stays so; its sentence is last_error()
//
// Threads    Any, at the same time.

#include <r2ccl.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/entry/outcome.h"
#include "comm/call.h"
#include "process/world.h"

namespace r2ccl::bindings {

struct Launch;

struct MemberConfig {
  bool blocking = true;
  int device = -1;   // CUDA's number of the processor
  std::string name;  // for people
  CommConfig comm;
};

// What may have become of a communicator that a call still takes.
enum class MayHave : std::uint8_t { kNothing, kBeenRevoked, kFailed };

class Member final {
 public:
  explicit Member(MemberConfig config_of) : config(std::move(config_of)) {}

  const MemberConfig config;
  // Set before comm(); a split knows them only after it has asked the others. A size of 0: not known yet.
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::string key;  // the same for all ranks of one communicator
  // The latest one issued, until it is done; guarded by launch_lock(). Whether there is one may be asked
  // without it.
  std::shared_ptr<Launch> last_launch;
  std::atomic<bool> has_launch = false;

  // Null until the join has begun; never replaced.
  std::shared_ptr<Comm> comm();
  void set_comm(const std::shared_ptr<Comm>& comm);
  bool has_identity();

  ncclResult_t state();
  // Whether a call may begin now, as an outcome with the reason. `name`: of the call.
  Outcome ready(const char* name, MayHave also = MayHave::kNothing);

  // A non-blocking call keeps the state at ncclInProgress between these two.
  void begin_pending();
  void end_pending(const Outcome& outcome);
  void wait_pending();

  // Both end what runs, here and at the other ranks. After revoke() that is no failure: the state is ncclSuccess, but
  // no calls are taken.
  void abort(const std::string& why);
  void revoke();
  // True for the first caller.
  bool begin_finalize();
  bool finalizing();
  bool revoked();

  // How a call on it ended, as an outcome. A call that fails because this process itself has aborted the communicator
  // is invalid usage, not a remote error.
  Outcome judge(const Status& status);
  void note(const Outcome& outcome);
  std::string last_error();

  // Operations made at run time. Numbers are process-wide, so that one of another communicator is not found.
  ncclRedOp_t add_op(DataType type, std::uint64_t scalar);
  bool remove_op(int op);
  struct PreMulSum {
    DataType type;
    std::uint64_t scalar;
  };
  std::optional<PreMulSum> find_op(int op);

  void* add_buffer(void* buffer, std::size_t bytes);
  bool remove_buffer(void* handle);

  // Counts a call, and gives the communicator it goes to, which is there.
  Comm& begin_call(std::uint64_t bytes);
  // Tells the failover callback what changed since the last look; costs nothing where there is none.
  void look_at_nics();
  void on_failover(r2cclFailoverCallback_t callback, void* context);
  void fill(r2cclStats_t& stats);

 private:
  struct Buffer {
    void* start;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::condition_variable settled_;
  std::shared_ptr<Comm> comm_;
  Outcome failure_;         // the first; ok while there is none
  std::string last_error_;  // the latest
  int pending_ = 0;
  bool aborted_ = false;
  bool revoked_ = false;
  bool finalizing_ = false;
  std::map<int, PreMulSum> ops_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;

  std::uint64_t calls_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t failures_ = 0;
  std::vector<NicView> nics_;
  std::atomic<bool> watched_ = false;  // there is a callback
  r2cclFailoverCallback_t callback_ = nullptr;
  void* context_ = nullptr;
};
using MemberPtr = std::shared_ptr<Member>;

r2cclNicInfo_t to_nic_info(const NicView& nic);

// ---- the table
ncclComm_t add_member(MemberPtr member);
MemberPtr find_member(ncclComm_t handle);  // null: no such communicator
MemberPtr take_member(ncclComm_t handle);  // and removes it
// Ranks of the same communicator that live in this process, itself included.
std::vector<MemberPtr> local_members(const std::string& key);

}  // namespace r2ccl::bindings
