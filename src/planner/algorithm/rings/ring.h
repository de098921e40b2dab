#pragma once
// Rings, for the algorithms that are made of them: where a member stands, the steps of its lane, when it is over, and
// how long it takes. A ring is a reduce-scatter and then an all-gather around its members, 2 (p - 1) steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planner/plan.h"
#include "schedule/schedule.h"

namespace r2ccl {

// Where a member stands in one ring. Piece i of the ring is piece first_piece + i * stride of the layout, i < members.
struct RingPlace {
  std::uint32_t members = 0;   // at least 2
  std::uint32_t position = 0;  // of this member
  std::uint32_t next = 0;      // ranks
  std::uint32_t previous = 0;
  std::uint32_t first_piece = 0;
  std::uint32_t channel = 0;
  std::uint32_t stride = 1;
};

// `order` names the ranks of a ring; nullopt when `rank` is none of them.
std::optional<RingPlace> place_in(std::span<const std::uint32_t> order, std::uint32_t rank);

// The slots a ring needs when it is a lane with outer = 2 * members - 1, all steps inside, inner = the layout's
// segments. Every member sends all segments before it receives the first, and a step that forwards needs a free slot
// before it can receive: with no more slots than segments all would wait for each other. Twice as many also cover the
// receipts' way back.
std::uint32_t ring_slots(std::uint32_t segments);
std::vector<Step> ring_steps(const RingPlace& place);
Lane ring_lane(const RingPlace& place, std::uint32_t segments, std::int32_t rail);

// What a step of another lane must wait for in its outer iteration 0 so that the ring in `lane` is over here: kResults,
// all results are there; kResultsFree, they may also be overwritten, so there is one more wait for the receipt of each
// that was forwarded.
enum class RingEnd : std::uint8_t { kResults, kResultsFree };
std::vector<Wait> ring_over(std::uint32_t lane, std::uint32_t members, RingEnd end);

// What one message of a ring meets on its way.
struct RingLoad {
  std::uint32_t members = 0;
  double piece_bytes = 0;
  double rate = 0;          // bytes per second of the slowest hop
  std::uint32_t rings = 1;  // side by side; a rank handles their messages one after another
};
// 2 (p - 1) steps; a step can not be shorter than its bytes, nor than the latency of one segment of every ring.
double ring_seconds(const RingLoad& load, std::uint32_t segments, const Cluster& cluster);

// The cheapest of K = 1, 2, 4 … 64 segments by `seconds`, or the number asked for, with messages of `message_bytes` / K
// not below the cluster's smallest. At least 4 where the size allows, so that a segment is on the wire while another is
// added; where nothing leaves the machine large pieces are not cut for that.
std::uint32_t choose_ring_segments(double message_bytes, const Cluster& cluster, const Tuning& tuning,
                                   const std::function<double(std::uint32_t)>& seconds);

// Rings over all ranks side by side, each with the same share of the data.
struct RingSet {
  std::vector<std::vector<std::uint32_t>> orders;  // [ring][position] = rank
  bool pinned = true;                              // ring k uses rail k only; otherwise any
};
// Fills in layout, slots, lanes and prediction of a plan whose header has its name. `load` is what the slowest ring
// meets; its bytes are filled in here. One rank alone copies.
void set_rings(Plan& plan, RingSet rings, RingLoad load, const Request& request, const Cluster& cluster,
               const Tuning& tuning);

// kMisuse, under the algorithm's name, where servers have several GPUs.
Status needs_one_gpu(const Cluster& cluster, std::string_view algorithm);

// 0, 1 … count - 1
std::vector<std::uint32_t> in_turn(std::uint32_t count);

// Rail shares proportional to the smaller rate of both ends, for all pairs. Pairs without a common rail have zeros.
RailShares shares_by_rate(const Cluster& cluster);

}  // namespace r2ccl
