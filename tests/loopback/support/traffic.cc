#include "tests/loopback/support/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace r2ccl::loopback {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15;

// A stream per end and number: the lower bit says who sends.
StreamId stream_id(std::size_t from_end, std::size_t stream) {
  return {stream * 2 + from_end};
}

}  // namespace

void TrafficBoard::fail(std::size_t end, std::string_view sentence) {
  if (ends[end].failed.value() != 0) return;
  const std::size_t length = std::min(sentence.size(), ends[end].failure.size() - 1);
  std::memcpy(ends[end].failure.data(), sentence.data(), length);
  ends[end].failed.raise_to(1);
  for (End& each : ends) each.done.raise_to(1);
}

void fill_pattern(std::span<std::byte> out, std::uint64_t key) {
  std::uint64_t word = key;
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), sizeof word);
    std::memcpy(out.data(), &word, count);
    out = out.subspan(count);
    word += kStride;
  }
}

std::size_t check_pattern(std::span<const std::byte> in, std::uint64_t key) {
  std::uint64_t word = key;
  for (std::size_t at = 0; at < in.size(); at += sizeof word, word += kStride) {
    const std::size_t count = std::min(in.size() - at, sizeof word);
    if (std::memcmp(in.data() + at, &word, count) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&word);
    return at + static_cast<std::size_t>(std::mismatch(expected, expected + count, in.data() + at).first - expected);
  }
  return in.size();
}

Traffic::Traffic(Driver& driver, ProcessId peer, GroupId group, std::size_t end, const TrafficShape& shape,
                 TrafficBoard& board)
    : driver_(driver), peer_(peer), group_(group), end_(end), shape_(shape), board_(board) {
  const std::size_t size_max = *std::ranges::max_element(shape_.sizes);
  for (auto* streams : {&sends_, &receives_})
    for (std::size_t number = 0; number < shape_.streams; ++number)
      for (std::size_t slot = 0; slot < shape_.window; ++slot) {
        auto message = std::make_unique<Message>();
        message->bytes.resize(size_max);
        message->region = HostRegion(message->bytes.data(), size_max);
        (*streams)[number].idle.push_back(message.get());
        (*streams)[number].slots.push_back(std::move(message));
      }
}

Traffic::~Traffic() {
  join();
}

void Traffic::start() {
  thread_ = std::thread([this] { run(); });
}

void Traffic::join() {
  if (thread_.joinable()) thread_.join();
}

void Traffic::compute(Duration how_long) {
  compute_ns_ = how_long.count();
}

void Traffic::run() {
  try {
    run_checked();
  } catch (const std::exception& error) {
    board_.fail(end_, error.what());
  }
}

void Traffic::run_checked() {
  Instant moved_at = clock_now();
  post_receives();
  while (!all_done()) {
    if (board_.ends[1 - end_].failed.value() != 0) throw std::runtime_error("the other end failed");
    post_sends();
    close_if_stopped();
    if (const Duration how_long{compute_ns_}; how_long > Duration::zero()) {
      busy_for(how_long);
      compute_ns_ = 0;
    }
    const std::vector<Completion> completions = wait_for_completions();
    for (const Completion& completion : completions) take(completion);
    post_receives();
    if (!completions.empty()) moved_at = clock_now();
    if (clock_now() - moved_at > kStuckAfter) throw std::runtime_error("nothing completed for a minute");
  }
  board_.ends[end_].done.raise_to(1);
}

std::vector<Completion> Traffic::wait_for_completions() {
  std::vector<Completion> completions;
  const auto some = [&](Engine& engine) {
    completions = engine.session(peer_).take_completions();
    return !completions.empty();
  };
  driver_.wait_until(some, clock_now() + 20ms);
  return completions;
}

// The token says what completed: its lowest bit is set for a receive.
void Traffic::take(const Completion& completion) {
  const bool received = (completion.token & 1) != 0;
  const std::size_t number = completion.stream.value / 2;
  Stream& stream = (received ? receives_ : sends_)[number];
  if (!completion.status) {
    throw std::runtime_error(fmt::format("{} {} of stream {} failed: {}", received ? "receive" : "send",
                                         completion.sequence, number, completion.status.error().what));
  }
  const auto slot = std::ranges::find_if(stream.slots, [&](const auto& each) {
    return each->sequence == completion.sequence && !std::ranges::count(stream.idle, each.get());
  });
  if (slot == stream.slots.end()) {
    throw std::runtime_error(
        fmt::format("{} {} of stream {} completed twice", received ? "receive" : "send", completion.sequence, number));
  }
  if (received) check(**slot, completion);
  stream.idle.push_back(slot->get());
  ++stream.done;
}

void Traffic::check(Message& message, const Completion& completion) {
  const std::size_t number = completion.stream.value / 2;
  const std::uint64_t key = key_of(1 - end_, number, completion.sequence);
  if (completion.length != size_of(key)) {
    throw std::runtime_error(fmt::format("message {} of stream {} has {} bytes instead of {}", completion.sequence,
                                         number, completion.length, size_of(key)));
  }
  const std::span<std::byte> bytes = std::span(message.bytes).first(completion.length);
  const std::size_t wrong_at = check_pattern(bytes, key);
  if (wrong_at != bytes.size()) {
    throw std::runtime_error(fmt::format("message {} of stream {} is wrong at byte {} of {}", completion.sequence,
                                         number, wrong_at, bytes.size()));
  }
  // Otherwise bytes that were right once could pass for the next message.
  std::memset(bytes.data(), 0xee, bytes.size());
  TrafficBoard::End& end = board_.ends[end_];
  ++end.messages_checked;
  end.bytes_checked += bytes.size();
}

void Traffic::post_receives() {
  driver_.with_engine([&](Engine& engine) {
    Session& session = engine.session(peer_);
    for (std::size_t number = 0; number < shape_.streams; ++number) {
      Stream& stream = receives_[number];
      while (!stream.idle.empty()) {
        Message* message = stream.idle.back();
        const auto sequence = session.receive(group_, stream_id(1 - end_, number),
                                              {&message->region, 0, message->bytes.size()}, 0, number * 2 + 1);
        if (!sequence) throw std::runtime_error("receive: " + sequence.error().what);
        message->sequence = *sequence;
        stream.idle.pop_back();
        stream.next = *sequence + 1;
      }
    }
  });
}

void Traffic::post_sends() {
  if (closed_) return;
  for (std::size_t number = 0; number < shape_.streams; ++number) {
    Stream& stream = sends_[number];
    while (!stream.idle.empty()) {
      Message* message = stream.idle.back();
      const std::uint64_t key = key_of(end_, number, stream.next);
      const std::size_t size = size_of(key);
      fill_pattern(std::span(message->bytes).first(size), key);
      message->sequence = stream.next;
      bool busy = false;
      driver_.with_engine([&](Engine& engine) {
        const auto sequence = engine.session(peer_).send(group_, stream_id(end_, number), {&message->region, 0, size},
                                                         stream.next, number * 2);
        busy = !sequence && sequence.error().fault == Fault::kBusy;
        if (busy) return;
        if (!sequence) throw std::runtime_error("send: " + sequence.error().what);
        if (*sequence != stream.next) throw std::runtime_error("a message got a number out of order");
      });
      if (busy) break;
      stream.idle.pop_back();
      ++stream.next;
    }
  }
}

void Traffic::close_if_stopped() {
  if (closed_ || board_.stop.value() == 0) return;
  closed_ = true;
  TrafficBoard::End& end = board_.ends[end_];
  for (std::size_t number = 0; number < shape_.streams; ++number) end.sent[number] = sends_[number].next;
  end.closed.raise_to(1);
}

bool Traffic::all_done() const {
  const TrafficBoard::End& other = board_.ends[1 - end_];
  if (!closed_ || other.closed.value() == 0) return false;
  for (std::size_t number = 0; number < shape_.streams; ++number) {
    if (sends_[number].done != sends_[number].next) return false;
    if (receives_[number].done > other.sent[number]) throw std::runtime_error("more messages arrived than were sent");
    if (receives_[number].done < other.sent[number]) return false;
  }
  return true;
}

std::uint64_t Traffic::key_of(std::size_t from_end, std::size_t stream, std::uint64_t sequence) const {
  return mix(mix(from_end + 1) + mix(stream + 77) * 3 + sequence * 0x2545f4914f6cdd1d);
}

std::size_t Traffic::size_of(std::uint64_t key) const {
  return shape_.sizes[key % shape_.sizes.size()];
}

void Traffic::busy_for(Duration how_long) {
  const Instant until = clock_now() + how_long;
  std::uint64_t value = computed_;
  while (clock_now() < until)
    for (int round = 0; round < 1000; ++round) value = mix(value + kStride);
  computed_ = value;
}

}  // namespace r2ccl::loopback
