#include "apps/r2ccl/common/rank_job.h"

#include <algorithm>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

constexpr std::byte kPoison{0xee};  // no value of any type that is ever sent

// Never null: callers may hand over empty buffers.
void grow(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < std::max<std::size_t>(bytes, 1)) memory.resize(std::max<std::size_t>(bytes, 1));
}

}  // namespace

void must(const Status& status) {
  if (!status) throw Failed(status.error().what);
}

Result<RankJob> join_job(const Launched& launch, const Settings& settings, const CommConfig& config) {
  const auto place = place_of(launch);
  if (!place) return std::unexpected(place.error());
  RankJob job{make_world(settings_for(settings, *place), *place), nullptr};
  const auto id = meet(*job.world, launch);
  if (!id) return std::unexpected(id.error());
  auto comm = job.world->join(*id, launch.rank, launch.size, config);
  if (!comm) return std::unexpected(comm.error());
  job.comm = std::move(*comm);
  if (const Status joined = job.comm->wait_joined(); !joined) return std::unexpected(joined.error());
  return job;
}

void Side::barrier() {
  std::int32_t one = 1;
  reduce(&one, 1, DataType::kInt32, ReduceName::kSum);
}

std::uint64_t Side::sum(std::uint64_t value) {
  reduce(&value, 1, DataType::kUint64, ReduceName::kSum);
  return value;
}

std::uint64_t Side::max(std::uint64_t value) {
  reduce(&value, 1, DataType::kUint64, ReduceName::kMax);
  return value;
}

std::vector<double> Side::mean(std::vector<double> values) {
  reduce(values.data(), values.size(), DataType::kFloat64, ReduceName::kAvg);
  return values;
}

std::vector<std::string> Side::gather(const std::string& text) {
  const std::uint64_t length = max(text.size());
  std::string padded = text;
  padded.resize(length, ' ');
  std::string all(length * comm_.size(), ' ');
  must(comm_.run({.kind = CallKind::kAllGather,
                  .input = padded.data(),
                  .output = all.data(),
                  .count = length,
                  .type = DataType::kUint8}));
  std::vector<std::string> texts;
  for (std::uint32_t rank = 0; rank < comm_.size(); ++rank) texts.push_back(all.substr(rank * length, length));
  return texts;
}

void Side::reduce(void* data, std::uint64_t count, DataType type, ReduceName name) {
  must(comm_.run({.input = data, .output = data, .count = count, .type = type, .op = {name}}));
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

Duration CheckedCalls::run(const PerfCase& one, const std::function<void()>& on_begin) {
  const std::vector<Call> calls = calls_of(one, input_.data(), output_.data());
  side_.barrier();
  on_begin();
  const Instant begin = steady_now();
  if (calls.size() == 1) {
    must(comm_.run(calls.front()));
  } else {
    const auto ticket = comm_.submit(calls);
    if (!ticket) throw Failed(ticket.error().what);
    must(comm_.wait(*ticket));
  }
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
