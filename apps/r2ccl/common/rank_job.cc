#include "apps/r2ccl/common/rank_job.h"

#include <algorithm>
#include <utility>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

constexpr std::byte kPoison{0xee};  // no value of any type that is ever sent

// Never null: callers may hand over empty buffers.
void grow(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < std::max<std::size_t>(bytes, 1)) memory.resize(std::max<std::size_t>(bytes, 1));
}

Status run_all(Comm& comm, const std::vector<Call>& calls) {
  if (calls.size() == 1) return comm.run(calls.front());
  const auto ticket = comm.submit(calls);
  if (!ticket) return std::unexpected(ticket.error());
  return comm.wait(*ticket);
}

}  // namespace

Result<JobSeat> seat_of(const Launched& launch) {
  auto place = place_of(launch);
  if (!place) return std::unexpected(place.error());
  return JobSeat{launch.rank, launch.size, std::move(*place), [launch](World& world) { return meet(world, launch); }};
}

Result<RankJob> join_job(const JobSeat& seat, const Settings& settings, const CommConfig& config) {
  RankJob job{make_world(settings_for(settings, seat.place), seat.place), nullptr};
  const auto id = seat.learn_id(*job.world);
  if (!id) return std::unexpected(id.error());
  auto comm = job.world->join(*id, seat.rank, seat.size, config);
  if (!comm) return std::unexpected(comm.error());
  job.comm = std::move(*comm);
  if (const Status joined = job.comm->wait_joined(); !joined) return std::unexpected(joined.error());
  return job;
}

Status Side::barrier() {
  std::int32_t one = 1;
  return reduce(&one, 1, DataType::kInt32, ReduceName::kSum);
}

Result<std::uint64_t> Side::sum(std::uint64_t value) {
  const Status reduced = reduce(&value, 1, DataType::kUint64, ReduceName::kSum);
  if (!reduced) return std::unexpected(reduced.error());
  return value;
}

Result<std::uint64_t> Side::max(std::uint64_t value) {
  const Status reduced = reduce(&value, 1, DataType::kUint64, ReduceName::kMax);
  if (!reduced) return std::unexpected(reduced.error());
  return value;
}

Result<std::vector<double>> Side::mean(std::vector<double> values) {
  const Status reduced = reduce(values.data(), values.size(), DataType::kFloat64, ReduceName::kAvg);
  if (!reduced) return std::unexpected(reduced.error());
  return values;
}

Result<std::vector<std::string>> Side::gather(const std::string& text) {
  const auto length = max(text.size());
  if (!length) return std::unexpected(length.error());
  std::string padded = text;
  padded.resize(*length, ' ');
  std::string all(*length * comm_.size(), ' ');
  const Status gathered = comm_.run({.kind = CallKind::kAllGather,
                                     .input = padded.data(),
                                     .output = all.data(),
                                     .count = *length,
                                     .type = DataType::kUint8});
  if (!gathered) return std::unexpected(gathered.error());
  std::vector<std::string> texts;
  for (std::uint32_t rank = 0; rank < comm_.size(); ++rank) texts.push_back(all.substr(rank * *length, *length));
  return texts;
}

Status Side::reduce(void* data, std::uint64_t count, DataType type, ReduceName name) {
  return comm_.run({.input = data, .output = data, .count = count, .type = type, .op = {name}});
}

void CheckedCalls::prepare(const PerfCase& one) {
  const std::size_t size = size_of(one.type);
  const InPlace place = in_place_of(one);
  const std::size_t input_bytes = one.input_count() * size;
  const std::size_t output_bytes = one.output_count() * size;
  grow(first_, one.in_place ? place.memory * size : input_bytes);
  grow(second_, one.in_place ? 0 : output_bytes);
  input_ = {first_.data() + (one.in_place ? place.input * size : 0), input_bytes};
  output_ = {one.in_place ? first_.data() + place.output * size : second_.data(), output_bytes};
}

void CheckedCalls::fill(const PerfCase& one, PerfData& data) {
  data.draw(operation_++);
  std::ranges::fill(output_, kPoison);
  data.fill(input_, one.rank);
}

Result<Duration> CheckedCalls::run(const PerfCase& one, const std::function<void()>& on_begin) {
  const std::vector<Call> calls = calls_of(one, input_.data(), output_.data());
  if (const Status ready = side_.barrier(); !ready) return std::unexpected(ready.error());
  on_begin();
  const Instant begin = steady_now();
  if (const Status done = run_all(comm_, calls); !done) return std::unexpected(done.error());
  return steady_now() - begin;
}

std::uint64_t CheckedCalls::wrong(const PerfCase& one, const PerfData& data) const {
  std::span<const std::byte> output = output_;
  std::uint64_t wrong = 0;
  for (const Expected& expected : expected_of(one)) {
    const std::size_t bytes = expected.count * size_of(one.type);
    wrong += data.count_wrong(output.first(bytes), expected);
    output = output.subspan(bytes);
  }
  return wrong;
}

}  // namespace r2ccl::apps
