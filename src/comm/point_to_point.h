#pragma once
// The sends and receives of one submit(): all at once, whatever their order. Between two ranks the n-th send meets the
// n-th receive; to itself a rank copies.
//
// Ownership  Borrows mailbox, device and user memory until over(). Threads: the communicator's.

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call.h"
#include "comm/mailbox.h"
#include "device/device.h"

namespace r2ccl {

class PointToPoint final {
 public:
  // Only the sends and receives among `calls` count.
  PointToPoint(const std::vector<Call>& calls, std::uint32_t rank, Mailbox& mailbox, const Device& device);

  // Starts what could not start yet. True: something moved.
  bool step();
  void on_completion(const Mailbox::Done& done);
  bool over() const { return open_ == 0 || !result_; }
  const Status& result() const { return result_; }

 private:
  struct Item {
    Call call;
    std::unique_ptr<HostRegion> region;
    bool started = false;
  };
  bool start(Item& item, std::uint64_t token);
  void pair_with_itself();
  std::uint64_t bytes(const Call& call) const { return call.count * size_of(call.type); }

  const std::uint32_t rank_;
  Mailbox& mailbox_;
  const Device& device_;
  std::vector<Item> items_;
  std::size_t unstarted_ = 0;
  std::size_t open_ = 0;
  Status result_;
};

}  // namespace r2ccl
