#pragma once
// Symbolic execution of a schedule over all ranks, once out of place or once in place.
//
// Lanes run until they block on a message, a free slot or a wait. Nothing in a schedule can choose, and two lanes may
// only share an end of a connection when waits order them, so every execution moves the same messages and one order
// stands for all.
//
// Races. Within a rank every lane knows how many steps of each other lane happened before (a vector clock that follows
// the order of lanes and the waits; messages of other ranks are not used). Every cell remembers who wrote it last and
// who used it since.
//   read:  the last write must have happened before.
//   write: the last write and all reads since must have happened before, and every send from the cell must be known to
//          be received, in one of two ways:
//     - a wait for that sending step happened before, or
//     - the message being written came back: it holds this rank's own contribution to a cell that the rank sent only
//       once. Then it was made from that send, which was received, and what the rank knew at that send happened before;
//       the same goes for reads and writes. (Contributions of others say nothing: they may have come another way.)
//   Slots acknowledge nothing, since empty messages are skipped and a free slot may be that of another message.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/check/check_shape.h"
#include "schedule/check/check_symmetry.h"
#include "schedule/check/check_values.h"
#include "schedule/cursor.h"
#include "schedule/schedule.h"

namespace r2ccl {

class CheckRun final {
 public:
  // All must outlive the run. shape_of() accepted the schedule. With a symmetry only the ranks that stand for all are
  // run, and the schedule may have the lanes of no more; what is refused then is not named well.
  CheckRun(const Schedule& schedule, const Geometry& geometry, ContributionSets& sets, bool in_place,
           const Symmetry* symmetry = nullptr);

  // Before run(): these channels have other slots than the schedule says. The numbers must outlive the run.
  void set_slots(const std::vector<std::uint32_t>& sorted_channels, std::uint32_t slots) {
    channels_with_slots_ = sorted_channels;
    their_slots_ = slots;
  }

  // The number of messages, or the first thing that is wrong.
  Result<std::uint64_t> run();

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // What a lane did with a cell since it was last written.
  struct Use {
    std::uint32_t next = kNone;
    std::uint32_t event = 0;
    std::uint32_t lane = 0;  // of this rank
    bool send = false;
  };
  struct Cell {
    Value value;
    std::uint32_t writer = kNone;  // lane of this rank
    std::uint32_t write_event = 0;
    std::uint32_t uses = kNone;  // list of Use
  };
  // What a lane knew when it started an event.
  struct Knowledge {
    std::uint32_t lane = 0;
    std::uint32_t event = 0;
    const std::uint32_t* seen = nullptr;  // by lane of the rank; null: nothing

    bool has(std::uint32_t other, std::uint32_t other_event) const {
      return other == lane ? other_event <= event : seen != nullptr && seen[other] > other_event;
    }
  };
  // The first send of a rank's own contribution to a cell.
  struct OwnSend {
    std::uint32_t event = 0;
    std::uint16_t lane = 0;
    std::uint16_t times = 0;  // 2: several
  };
  // Lane `lane` waited for the receipt of a send before its own `event`.
  struct Receipt {
    std::uint32_t next = kNone;
    std::uint32_t lane = 0;
    std::uint32_t event = 0;
  };
  struct Message {
    std::uint32_t next = kNone;
    std::uint32_t sender = 0;  // lane of all
    std::uint32_t event = 0;
    Span span;
    std::uint32_t segment = 0;
    std::uint32_t values = 0;  // where in values_, unless it is one
    Value value;               // the first
  };
  // One direction of a channel between two ranks. Lanes are numbers of all lanes; events are of the last use of each
  // end.
  struct Connection {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t count = 0;
    std::uint32_t send_lane = kNone;
    std::uint32_t send_event = 0;
    std::uint32_t recv_lane = kNone;
    std::uint32_t recv_event = 0;
    std::uint32_t blocked_sender = kNone;
    std::uint32_t blocked_receiver = kNone;
    std::uint32_t slots = 0;
    std::uint32_t turn = 0;  // what arrives was sent by a rank so many turns on from the one that was run
  };
  enum class Blocked : std::uint8_t { kNo, kMessage, kSlot, kPassing, kReceipt };
  // The step a lane is at, resolved.
  struct Moment {
    bool valid = false;
    Span span;
    std::uint32_t segment = 0;
    std::uint32_t in = kNone;  // connections
    std::uint32_t out = kNone;
    Buffer source = Buffer::kNone;
    std::uint32_t waits_done = 0;
    std::uint32_t receipts_from = 0;  // events before it are known to be received, of the wait under way
  };
  struct LaneState {
    LaneState(const Lane& l, std::uint32_t of_rank, std::uint32_t in_rank)
        : lane(&l), cursor(l), shape(l), rank(of_rank), number(in_rank) {}

    std::uint32_t events() const { return static_cast<std::uint32_t>(positions.size()); }

    const Lane* lane;
    LaneCursor cursor;
    LoopShape shape;
    std::uint32_t rank;
    std::uint32_t number;    // in its rank
    std::uint64_t here = 0;  // position of the cursor
    Moment now;
    std::vector<std::uint64_t> positions;   // of each event, an executed step
    std::vector<std::uint8_t> received;     // by event; of sends
    std::vector<std::uint32_t> receipts;    // by event: list of Receipt
    std::vector<std::uint32_t> seen;        // by lane of the rank: so many of its events happened before
    std::vector<std::uint32_t> snapshots;   // (event, seen…) whenever `seen` grew, if it is of use to other lanes
    std::vector<std::uint64_t> waited;      // by wait of the lane: outer iteration it was last passed for, plus one
    std::vector<std::uint32_t> first_wait;  // by step, into `waited`
    std::vector<std::uint32_t> peers;       // connections of steps by inner iteration, kNone before the first use
    // By step, into `peers`: incoming, then outgoing; kNone: moves with the outer loop.
    std::vector<std::uint32_t> first_peer;
    std::vector<std::uint32_t> waiters;  // lanes of all, blocked on this one
    bool is_waited_for = false;
    bool keeps_snapshots = false;
    bool queued = false;
    Blocked blocked = Blocked::kNo;
    std::uint32_t blocked_lane = 0;      // of all; kPassing, kReceipt
    std::uint64_t blocked_position = 0;  // kPassing
    std::uint32_t blocked_event = 0;     // kReceipt
  };
  // An operand in memory.
  struct Place {
    Cell* cells = nullptr;    // null: the input out of place, which never changes
    std::uint32_t first = 0;  // cell of the vector that the step names
    std::uint32_t count = 0;
    std::uint32_t behind = 0;  // further cells of the scratch slot, which a write makes unknown
  };
  enum class Outcome : std::uint8_t { kRan, kBlocked, kRefused };

  // check_run.cc: lanes and steps
  bool run_lane(LaneState& lane);
  Outcome run_step(LaneState& lane);
  bool resolve(LaneState& lane);
  bool execute(LaneState& lane);
  void wake(std::uint32_t lane);
  bool check_end();
  bool check_outputs(std::uint32_t rank);
  Value promised(std::uint32_t rank, std::uint32_t piece, std::uint32_t segment) const;

  // check_message.cc: connections and messages
  void plan_peers(LaneState& lane);
  bool resolve_peer(LaneState& lane, bool incoming, std::uint32_t& connection);
  std::uint32_t connection_of(std::uint32_t from, std::uint32_t to, std::uint32_t channel);
  Outcome await_connections(LaneState& lane);
  bool ordered(LaneState& lane, std::uint32_t last_lane, std::uint32_t last_event, const char* what);
  bool take_message(LaneState& lane);
  bool turn_message(LaneState& lane, const Message& m, std::uint32_t turn);
  void drop_message(LaneState& lane);
  void post_message(LaneState& lane);
  std::uint32_t store_values(std::uint32_t count);

  // check_wait.cc: waits and clocks
  Outcome await(LaneState& lane);
  Outcome await_one(LaneState& lane, const Wait& wait, std::uint64_t& waited);
  Outcome await_receipts(LaneState& lane, LaneState& target, const Wait& wait, std::uint64_t begin, std::uint64_t end);
  void learn(LaneState& lane, const LaneState& target, std::uint32_t events);
  void note_receipt(LaneState& target, std::uint32_t event, const LaneState& waiter);
  void notify_progress(LaneState& lane);
  void notify_receipt(LaneState& lane, std::uint32_t event);
  static Knowledge knowledge(const LaneState& lane) { return {lane.number, lane.events(), lane.seen.data()}; }
  Knowledge knowledge_at(const LaneState& lane, std::uint32_t event) const;
  bool happened_before(const LaneState& lane, std::uint32_t other, std::uint32_t event) const {
    return knowledge(lane).has(other, event);
  }
  bool receipt_known(const Knowledge& known, std::uint32_t rank, std::uint32_t sender, std::uint32_t event) const;

  // check_memory.cc: cells
  bool locate(LaneState& lane, Buffer buffer, const Index& slot, bool write, Place& place);
  bool in_window(Window window, std::uint32_t rank, std::uint32_t piece) const;
  bool load(LaneState& lane, const Place& place, bool send, Value* into);
  bool belongs(Value value, std::uint32_t cell) const;
  // `message` is what arrived, null when nothing did.
  bool store(LaneState& lane, const Place& place, const Value* values, const Value* message);
  // What is known because `message` came back; false when it did not.
  bool came_back(const LaneState& lane, const Value* message, Knowledge& known) const;
  bool may_write(LaneState& lane, Cell& cell, std::uint32_t named, const Value* message);
  bool add(LaneState& lane, std::uint32_t first, Value* into, const Value* other, std::uint32_t count);
  void add_use(LaneState& lane, Cell& cell, bool send);
  void count_own(LaneState& lane, const Value* values, std::uint32_t count);

  // check_report.cc: sentences
  std::string where(const LaneState& lane, std::uint64_t position) const;
  std::string where(const LaneState& lane, std::uint32_t other_lane, std::uint32_t event) const;
  std::string cell_text(std::uint32_t cell) const;
  std::string blocked_text(const LaneState& lane) const;
  bool refuse(const LaneState& lane, const std::string& reason);

  LaneState& lane_of(std::uint32_t rank, std::uint32_t number) { return lanes_[first_lane_[rank] + number]; }
  const LaneState& lane_of(std::uint32_t rank, std::uint32_t number) const {
    return lanes_[first_lane_[rank] + number];
  }
  std::uint32_t id_of(const LaneState& lane) const { return first_lane_[lane.rank] + lane.number; }

  const Schedule& schedule_;
  const PlanHeader& header_;
  const Geometry& geometry_;
  ContributionSets& sets_;
  bool in_place_;
  const Symmetry* symmetry_;
  std::uint32_t ranks_;  // that are run
  Windows windows_;

  std::span<const std::uint32_t> channels_with_slots_;  // sorted
  std::uint32_t their_slots_ = 0;
  std::vector<LaneState> lanes_;
  std::vector<std::uint32_t> first_lane_;  // by rank
  std::vector<std::uint32_t> work_;        // lanes that may go on
  std::vector<Cell> cells_;  // [rank * cells_per_rank_ + …]: output (and input, in place), then scratch slots
  std::size_t cells_per_rank_ = 0;
  std::vector<OwnSend> own_sends_;  // [rank * cells + origin]
  std::vector<Use> uses_;
  std::uint32_t free_use_ = kNone;
  std::vector<Receipt> receipts_;
  std::vector<Connection> connections_;
  std::vector<std::uint64_t> connection_keys_;  // open addressing; 0: free
  std::vector<std::uint32_t> connection_values_;
  std::vector<Message> messages_;
  std::uint32_t free_message_ = kNone;
  std::vector<Value> values_;                            // of messages under way
  std::vector<std::vector<std::uint32_t>> free_values_;  // by count
  std::vector<Value> data_;                              // of the step being executed
  std::vector<Value> incoming_;
  std::vector<Value> operand_;
  std::uint64_t sent_ = 0;
  std::uint64_t cell_work_ = 0;
  std::string error_;
};

}  // namespace r2ccl
