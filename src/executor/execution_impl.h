#pragma once
// The inside of Execution. execution.cc has start, events and end; execution_post.cc posts receives ahead;
// execution_steps.cc runs the steps.
//
// A lane runs until nothing is left that it may do. Then this wakes it:
//   it waits for        it is woken by                                  see
//   a message           its completion                                  the oldest Posted of the lane
//   a slot to send      the completion that frees it                    Connection::waiter
//   a staging buffer    the step or completion that frees it            Connection::waiter
//   another lane        every step that ends there, and every receipt   dependents, LaneRun::awaits
//   a busy courier      the next call of step()                         stalled
//
// Every slot of every connection is a Transfer, and its number is the token. Nothing is allocated after the start,
// except that Receipts may grow.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/execution.h"
#include "executor/lane_run.h"
#include "executor/needs.h"
#include "transport/link.h"

namespace r2ccl {

inline constexpr std::size_t kLine = 64;  // bytes of a cache line

struct Execution::Impl {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint64_t kStepsAhead = 4096;  // posting goes no further ahead, which bounds the work of a call

  struct Connection {
    std::uint64_t key = 0;
    std::uint32_t depth = 0;
    std::uint32_t first = 0;  // its first transfer
    std::uint32_t next = 0;   // slot of the next send; sends take slots in turn, receives take any that is free
    bool shared = false;
    std::uint32_t waiter = kNone;  // the lane that needs a slot
    std::size_t staging = 0;       // where its staging buffers begin in the block
    std::size_t stride = 0;        // from one staging buffer to the next

    std::uint32_t peer() const { return static_cast<std::uint32_t>(key >> 32); }
    std::uint32_t channel() const { return static_cast<std::uint32_t>(key); }
    std::uint32_t transfer() const { return first + next; }
    void take_slot() { next = next + 1 == depth ? 0 : next + 1; }
  };

  enum class State : std::uint8_t {
    kFree,
    kUnderWay,  // the courier has it
    kHeld,      // received; the step or the send that reads it has not ended
  };
  struct Transfer {
    State state = State::kFree;
    std::uint32_t connection = 0;
    std::uint32_t lane = 0;
    std::uint32_t skew = 0;          // receive: its message begins so far into its staging buffer
    std::uint32_t relayed = kNone;   // send: the receive whose staging buffer it reads
    std::uint32_t receipts = kNone;  // send: where a wait looks for its receipt
    std::uint64_t receipt = 0;
  };

  // An operand in memory.
  struct Place {
    Region* region = nullptr;
    std::size_t offset = 0;
    std::byte* memory = nullptr;
  };

  enum class Went : std::uint8_t { kNowhere, kSome, kToItsEnd };

  Impl(const PlanHeader& header_in, std::span<const Lane> lanes_in, std::uint32_t rank_in,
       const ExecutionBuffers& buffers_in, DataType type_in, ReduceKind kind_in, const Device& device_in,
       Courier& courier_in, Pool& pool_in);
  ~Impl() { pool.give_back(std::move(block)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // execution.cc
  void connect(const Needs& needs);
  void add_lanes(const Needs& needs);
  std::optional<NicId> nic_of(std::int32_t rail) const;
  void add_dependents();
  void start();
  void wake(std::uint32_t lane);
  void wake_dependents(const LaneRun& lane);
  void run(LaneRun& lane);
  void stall(LaneRun& lane);
  void refused(LaneRun& lane, const Error& error);
  void free_receive(std::uint32_t transfer);
  bool waits_over(const LaneCursor& at, WaitProgress& progress) const;
  bool wait_over(const LaneCursor& at, const Wait& wait, std::uint64_t& known) const;
  // The iterations that `wait` is about. False: it asks for none.
  bool waited_for(const LaneCursor& at, const Wait& wait, Iteration& first, Iteration& last) const;
  std::vector<std::uint32_t> waiting_for() const;
  void add_reason(const LaneRun& lane, std::vector<std::uint32_t>& ranks) const;

  // execution_post.cc
  void post(LaneRun& lane);
  bool post_next(LaneRun& lane);
  bool post_receive(LaneRun& lane, ElementRange range, bool waits_over);
  void pass(LaneRun& lane, ElementRange range, bool waits_over);

  // execution_steps.cc
  Went execute(LaneRun& lane);
  bool begin(LaneRun& lane);
  bool find_range(LaneRun& lane);
  bool work(LaneRun& lane);
  bool send(LaneRun& lane);
  void end(LaneRun& lane);

  const Posted* oldest(const LaneRun& lane) const {
    return lane.posted_count == 0 ? nullptr : &posted[lane.first_posted + lane.posted_begin];
  }
  ElementRange range_of(const LaneCursor& at) const {
    return header.layout.range(static_cast<std::uint32_t>(at.span()), static_cast<std::uint32_t>(at.segment()),
                               buffers.count);
  }
  Place place(const LaneCursor& at, Buffer buffer, const Index& slot, ElementRange range);
  std::size_t buffer_of(std::uint32_t transfer) const {  // where its staging buffer begins in the block
    const Connection& c = in[transfers[transfer].connection];
    return c.staging + (transfer - c.first) * c.stride;
  }
  Place staging_of(std::uint32_t transfer);
  std::uint32_t skew_of(std::uint32_t transfer, ElementRange range) const;
  std::uint32_t free_slot(Connection& connection) const;  // for a receive; kNone: there is none
  static std::uint32_t find(const std::vector<Connection>& connections, std::uint64_t key);
  bool finished() const { return lanes_left == 0 && sends_open == 0; }

  const PlanHeader& header;
  const std::span<const Lane> lanes;
  const std::uint32_t rank;
  ExecutionBuffers buffers;
  const DataType type;
  const std::size_t size;  // bytes of an element
  const ReduceKind kind;
  const Device& device;
  Courier& courier;
  Pool& pool;

  Pool::Block block{};  // scratch slots, then staging buffers
  std::size_t scratch_stride = 0;
  HostRegion input{nullptr, 0};
  HostRegion output{nullptr, 0};
  HostRegion own{nullptr, 0};  // the block

  std::vector<Connection> in{};  // by key
  std::vector<Connection> out{};
  std::vector<Transfer> transfers{};  // those of `in`, then those of `out`
  std::uint32_t first_send = 0;       // the first transfer of `out`
  std::vector<LaneRun> runs{};
  std::vector<Posted> posted{};
  std::vector<std::uint32_t> dependents{};
  std::vector<std::uint32_t> receipts_of{};  // one per step of every lane; kNone: nobody waits for its receipts
  std::vector<Receipts> receipts{};

  std::vector<std::uint32_t> queue{};  // a ring of lanes, each at most once
  std::uint32_t queue_begin = 0;
  std::uint32_t queue_count = 0;
  std::vector<std::uint32_t> stalled{};
  std::size_t budget = 0;  // bytes that this call may still copy or reduce
  bool moved = false;
  std::uint32_t lanes_left = 0;
  std::uint32_t sends_open = 0;
  Status result{};  // an error ends it at once
};

}  // namespace r2ccl
