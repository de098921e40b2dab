#include "tests/loopback/support/conformance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/scalar.h"

namespace r2ccl::loopback {
namespace {

constexpr std::size_t kGuard = 64;  // bytes before and behind every buffer
constexpr std::byte kUntouched{0xa5};

struct Case {
  CallKind kind;
  DataType type;
  ReduceName op;
  std::uint64_t count;
  std::uint32_t root;
  bool in_place;
  std::uint64_t seed;
};

Case draw(std::uint64_t seed, std::uint32_t size, std::uint64_t count_max) {
  std::mt19937_64 random(seed);
  const std::uint64_t counts[] = {0, 1, 2, size, 63, 1000, 1 + random() % count_max};
  return {.kind = static_cast<CallKind>(random() % 9),  // kSend stands for a ring of sends and receives
          .type = static_cast<DataType>(random() % kDataTypes),
          .op = static_cast<ReduceName>(random() % 6),
          .count = counts[random() % std::size(counts)],
          .root = static_cast<std::uint32_t>(random() % size),
          .in_place = random() % 2 == 0,
          .seed = random()};
}

// The value of element i of the whole vector at a rank: 0 or 1; for products 1, and seldom 2.
double value_at(const Case& c, std::uint32_t rank, std::uint64_t i) {
  const std::uint64_t hash =
      (c.seed ^ (i * 0x9e3779b97f4a7c15) ^ (std::uint64_t{rank} << 32)) * 0xc2b2ae3d27d4eb4f >> 40;
  if (c.op == ReduceName::kProd) return (i + rank) % 3 == 0 && rank < 3 ? 2 : 1;
  return static_cast<double>(hash % 2);
}

double reduced(const Case& c, std::uint32_t size, std::uint64_t i, bool& rounded) {
  double sum = 0;
  double product = 1;
  double most = 0;
  double least = 2;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const double value = value_at(c, rank, i);
    sum += value;
    product *= value;
    most = std::max(most, value);
    least = std::min(least, value);
  }
  switch (c.op) {
    case ReduceName::kSum:
      return sum;
    case ReduceName::kProd:
      return product;
    case ReduceName::kMax:
      return most;
    case ReduceName::kMin:
      return least;
    case ReduceName::kAvg:
      rounded = is_float(c.type);
      return rounded ? sum / size : std::trunc(sum / size);
    case ReduceName::kPreMulSum:
      return sum;  // times one
  }
  return 0;
}

// How far from the true average a sum of rounded parts may be.
double tolerance(DataType type) {
  switch (type) {
    case DataType::kFloat8e4m3:
      return 0.2;
    case DataType::kFloat8e5m2:
      return 0.4;
    case DataType::kBfloat16:
      return 0.03;
    case DataType::kFloat16:
      return 0.004;
    default:
      return 1e-6;
  }
}

// Elements with guards around them.
class Buffer {
 public:
  Buffer(std::uint64_t count, DataType type)
      : width_(size_of(type)), type_(type), bytes_(2 * kGuard + count * width_, kUntouched) {}
  std::byte* at(std::uint64_t i) { return bytes_.data() + kGuard + i * width_; }
  void set(std::uint64_t i, double value) { from_double(value, type_, at(i)); }
  double get(std::uint64_t i) { return to_double(at(i), type_); }
  bool guarded() const {
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, [](std::byte b) { return b == kUntouched; }) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), [](std::byte b) { return b == kUntouched; });
  }

 private:
  std::size_t width_;
  DataType type_;
  std::vector<std::byte> bytes_;
};

bool sends_block(CallKind kind) {
  return kind == CallKind::kAllGather || kind == CallKind::kGather;
}
bool gets_block(CallKind kind) {
  return kind == CallKind::kReduceScatter || kind == CallKind::kScatter;
}
bool has_blocks(CallKind kind) {
  return kind != CallKind::kAllReduce && kind != CallKind::kBroadcast && kind != CallKind::kReduce;
}
std::string text_of(const Case& c, std::uint32_t rank, std::uint32_t size) {
  const Call call{.kind = c.kind, .count = c.count, .type = c.type, .op = {c.op, 0}, .peer = c.root};
  return fmt::format("{}{}, rank {} of {}, seed {}", describe(call), c.in_place ? " in place" : "", rank, size, c.seed);
}

// What rank `rank` must have at element i of its output.
double expected(const Case& c, std::uint32_t rank, std::uint32_t size, std::uint64_t i, bool& rounded) {
  switch (c.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
      return reduced(c, size, i, rounded);
    case CallKind::kReduceScatter:
      return reduced(c, size, rank * c.count + i, rounded);
    case CallKind::kAllGather:
    case CallKind::kGather:
      return value_at(c, static_cast<std::uint32_t>(i / c.count), i);
    case CallKind::kBroadcast:
      return value_at(c, c.root, i);
    case CallKind::kScatter:
      return value_at(c, c.root, rank * c.count + i);
    case CallKind::kAllToAll:
      return value_at(c, static_cast<std::uint32_t>(i / c.count), rank * c.count + i % c.count);
    default:
      return 0;
  }
}

void run_collective(Comm& comm, const Case& c) {
  const std::uint32_t rank = comm.rank();
  const std::uint32_t size = comm.size();
  const std::uint64_t whole = c.count * (has_blocks(c.kind) ? size : 1);
  const std::uint64_t in_count = sends_block(c.kind) ? c.count : whole;
  const std::uint64_t out_count = gets_block(c.kind) ? c.count : whole;
  // In place, the smaller buffer is this rank's block of the larger one.
  Buffer input(std::max(in_count, c.in_place ? whole : 0), c.type);
  Buffer output(out_count, c.type);
  const std::uint64_t in_at = c.in_place && sends_block(c.kind) ? rank * c.count : 0;
  const std::uint64_t out_at = c.in_place && gets_block(c.kind) ? rank * c.count : 0;
  const std::uint64_t first = sends_block(c.kind) ? rank * c.count : 0;  // of the vector
  for (std::uint64_t i = 0; i < in_count; ++i) input.set(in_at + i, value_at(c, rank, first + i));
  Buffer& result = c.in_place ? input : output;
  std::uint64_t scalar = 0;
  from_double(1, c.type, reinterpret_cast<std::byte*>(&scalar));
  const bool is_root = rank == c.root;
  const bool no_output = (c.kind == CallKind::kReduce || c.kind == CallKind::kGather) && !is_root;
  const bool no_input = c.kind == CallKind::kScatter && !is_root;
  const Call call{.kind = c.kind,
                  .input = no_input ? nullptr : input.at(in_at),
                  .output = no_output ? nullptr : result.at(out_at),
                  .count = c.count,
                  .type = c.type,
                  .op = {c.op, scalar},
                  .peer = c.root};
  const Status done = comm.run(call);
  ASSERT_TRUE(done) << text_of(c, rank, size) << ": " << done.error().what;
  EXPECT_TRUE(input.guarded() && output.guarded()) << text_of(c, rank, size);
  if (no_output) return;
  for (std::uint64_t i = 0; i < out_count; ++i) {
    bool rounded = false;
    const double wanted = expected(c, rank, size, i, rounded);
    const double got = result.get(out_at + i);
    const bool right = rounded ? std::abs(got - wanted) <= tolerance(c.type) : got == wanted;
    ASSERT_TRUE(right) << text_of(c, rank, size) << ", element " << i << ": " << got << " instead of " << wanted;
  }
}

// Everybody sends to its right neighbour and, twice, to the one after; receives are submitted in another order.
void run_points(Comm& comm, const Case& c) {
  const std::uint32_t rank = comm.rank();
  const std::uint32_t size = comm.size();
  const std::uint32_t next = (rank + 1) % size;
  const std::uint32_t over = (rank + 2) % size;
  const std::uint32_t before = (rank + size - 1) % size;
  const std::uint32_t far = (rank + 2 * size - 2) % size;
  Buffer out(c.count, c.type);
  Buffer in(3 * c.count, c.type);
  for (std::uint64_t i = 0; i < c.count; ++i) out.set(i, value_at(c, rank, i));
  const auto send = [&](std::uint32_t to) {
    return Call{.kind = CallKind::kSend, .input = out.at(0), .count = c.count, .type = c.type, .peer = to};
  };
  const auto receive = [&](std::uint32_t from, std::uint64_t slot) {
    return Call{
        .kind = CallKind::kRecv, .output = in.at(slot * c.count), .count = c.count, .type = c.type, .peer = from};
  };
  auto ticket = comm.submit({receive(far, 0), send(over), send(next), send(over), receive(before, 1), receive(far, 2)});
  ASSERT_TRUE(ticket) << ticket.error().what;
  const Status done = comm.wait(*ticket);
  ASSERT_TRUE(done) << text_of(c, rank, size) << ": " << done.error().what;
  EXPECT_TRUE(in.guarded());
  for (std::uint64_t i = 0; i < c.count; ++i) {
    ASSERT_EQ(in.get(i), value_at(c, far, i)) << text_of(c, rank, size);
    ASSERT_EQ(in.get(c.count + i), value_at(c, before, i)) << text_of(c, rank, size);
    ASSERT_EQ(in.get(2 * c.count + i), value_at(c, far, i)) << text_of(c, rank, size);
  }
}

}  // namespace

void conform(Comm& comm, std::uint64_t seed, std::uint64_t count_max) {
  const Case c = draw(seed, comm.size(), count_max);
  if (c.kind == CallKind::kSend) {
    run_points(comm, c);
  } else {
    run_collective(comm, c);
  }
}

}  // namespace r2ccl::loopback
