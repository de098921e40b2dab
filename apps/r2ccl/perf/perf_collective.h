#pragma once
// What `r2ccl perf` knows about each collective: buffers, calls, how its speed is counted. Values only.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/call.h"

namespace r2ccl::apps {

// How the elements of a buffer relate to the ranks: one rank's `count`, or a block of them for each rank.
enum class Extent : std::uint8_t { kNone, kOne, kAll };

struct PerfCollective {
  std::string_view name;  // as on the command line
  CallKind kind;          // kSend: sendrecv, a ring of one send and one receive
  Extent input, output;   // at the root, where there is one
  Extent elsewhere_input, elsewhere_output;
  bool reduces;
  bool has_root;
  bool in_place;  // whether it can run so
};

std::span<const PerfCollective> perf_collectives();
// kMisuse with a sentence that lists them.
Result<const PerfCollective*> find_collective(std::string_view name);

// Bytes on the busiest wire for each byte of the algorithm bandwidth, as nccl-tests counts: 2(n-1)/n, (n-1)/n or 1.
double bus_factor(const PerfCollective& collective, std::uint32_t ranks);

// Elements of a call for a row of `bytes`, and the bytes it then really has: the larger buffer counts, whole blocks
// only.
std::uint64_t count_for(const PerfCollective& collective, std::uint64_t bytes, std::size_t element,
                        std::uint32_t ranks);
std::uint64_t bytes_of(const PerfCollective& collective, std::uint64_t count, std::size_t element, std::uint32_t ranks);

// One rank's part of one row.
struct PerfCase {
  const PerfCollective* collective = nullptr;
  std::uint64_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op;
  std::uint32_t root = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  bool in_place = false;

  bool is_root() const { return !collective->has_root || rank == root; }
  std::uint64_t input_count() const;   // elements
  std::uint64_t output_count() const;  // elements; 0 where nothing arrives
};

// Where the input lies in the output's memory, or the output in the input's, in elements. `memory` is what both need
// together.
struct InPlace {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t memory = 0;
};
InPlace in_place_of(const PerfCase& one);

// The calls of one row at one rank; they are submitted as one group.
std::vector<Call> calls_of(const PerfCase& one, const void* input, void* output);

// What must arrive: `count` elements that begin at element `from` of what rank `source` sent, or of the reduction of
// all.
struct Expected {
  bool reduced = false;
  std::uint32_t source = 0;
  std::uint64_t from = 0;
  std::uint64_t count = 0;
};
std::vector<Expected> expected_of(const PerfCase& one);  // in the order of the output

}  // namespace r2ccl::apps
