#pragma once
// One connection as NCCL sees it: a sendComm or a recvComm, with its requests. Data of a tag is a stream of its own, so
// the n-th receive of a tag takes the n-th send with it, whatever was grouped with what.
//
//   state     meaning                                                   next
//   kMeeting  waits for the other end and for a path to it              kOpen; kFailed, if it is refused
//   kOpen     carries data                                              kFailed: the other end is gone, or closed with
//                                                                       work pending
//   kFailed   every request ends with `failure`
//
// Sending    NCCL's own thread copies what is not too long, and for NCCL the send is over: the thread that writes to
//            the network is free, and NCCL goes on to its next operation without waiting for a receipt.
// Receiving  Messages that come before their receive are kept (early_messages.h), and NCCL's own thread copies them
//            when it asks: the thread that reads from the network is free for what comes next, and nobody waits for it.
// Closing    Both ends say how much they did and wait for each other in the background, so that nothing that was sent
//            is lost; a connection closed with requests pending ends at once, at both ends.
// Threads    NCCL uses a connection from one thread at a time. What belongs to the engine is marked; the rest is
//            atomic.

#include <array>
#include <atomic>
#include <memory>

#include "base/id.h"
#include "env/secret.h"
#include "plugin/early_messages.h"
#include "plugin/nccl/nccl_net.h"
#include "plugin/send_copies.h"
#include "session/session.h"
#include "transport/link.h"

namespace r2ccl::plugin {

class Endpoint;
class NetComm;

inline constexpr int kGroupedMax = 8;  // receives in one request

// Host memory that NCCL named.
class NamedRegion final : public Region {
 public:
  void name(void* data, std::size_t size) {
    data_ = static_cast<std::byte*>(data);
    size_ = size;
  }
  ByteView bytes() const { return {data_, size_}; }
  std::byte* host() override { return data_; }
  std::size_t size() const override { return size_; }
  void read(std::size_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), data_ + offset, out.size());
  }
  void write(std::size_t offset, ByteView in) override { std::memcpy(data_ + offset, in.data(), in.size()); }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// One isend, or one irecv of several parts. Made once and used again and again.
struct alignas(16) NetRequest {
  struct Part {
    NamedRegion memory;
    std::uint32_t tag = 0;
    std::size_t moved = 0;  // bytes, once over
    void* event = nullptr;  // of NCCL's profiler
  };
  NetComm* connection = nullptr;
  Part* parts = nullptr;
  int count = 0;
  NetRequest* next_free = nullptr;
  std::atomic<int> open = 0;  // parts that are not over; what they moved is seen by whoever sees 0
  std::atomic<nccl::NetResult> result = nccl::kSuccess;
};

class alignas(16) NetComm final {
 public:
  enum class State : std::uint8_t { kMeeting, kOpen, kFailed };
  enum class Side : std::uint8_t { kSend, kReceive };

  NetComm(Endpoint& endpoint, Side side);
  NetComm(const NetComm&) = delete;
  NetComm& operator=(const NetComm&) = delete;

  // ---- NCCL's thread ----
  Endpoint& endpoint() const { return endpoint_; }
  Side side() const { return side_; }
  State state() const { return state_.load(std::memory_order_acquire); }
  nccl::NetResult failure() const { return failure_; }
  NetRequest* take();  // null: all are in use
  void give_back(NetRequest& request);

 private:
  friend class Endpoint;
  Endpoint& endpoint_;
  const Side side_;
  std::unique_ptr<NetRequest[]> requests_;
  std::unique_ptr<NetRequest::Part[]> parts_;
  NetRequest* free_ = nullptr;
  std::atomic<State> state_ = State::kMeeting;
  std::atomic<nccl::NetResult> failure_ = nccl::kSuccess;
  SendCopies copies_;
  EarlyMessages shelf_;

  // ---- with the engine held ----
  KeyId key_;
  Secret secret_{};
  Session* session_ = nullptr;
  std::string peer_;                      // for people
  std::uint64_t pending_ = 0;             // parts given to the session
  std::atomic<std::uint64_t> moved_ = 0;  // messages sent (posted) or received
  Instant refused_since_ = kNever;
  bool closed_ = false;  // by NCCL here
  bool peer_closed_ = false;
  std::uint64_t peer_moved_ = 0;  // what the other end did in all, once it has closed
  Instant give_up_ = kNever;      // sends that the other end does not want any more
  std::array<std::byte, 8> bye_in_{}, bye_out_{};
  HostRegion bye_in_region_{bye_in_.data(), bye_in_.size()};
  HostRegion bye_out_region_{bye_out_.data(), bye_out_.size()};
};

}  // namespace r2ccl::plugin
