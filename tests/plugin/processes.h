#pragma once
// Two processes that play two servers, each with the plugin loaded. A line between them carries handles, as NCCL's
// bootstrap does.

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "base/time.h"
#include "tests/plugin/net.h"

namespace r2ccl::plugin {

// One end of the line. Blocking; a line that broke ends the process.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  template <class T>
  void put(const T& value) {
    put_bytes(&value, sizeof value);
  }
  template <class T>
  T get() {
    T value{};
    get_bytes(&value, sizeof value);
    return value;
  }
  // Waits until both ends have come here.
  void meet() { put('x'), static_cast<void>(get<char>()); }

 private:
  void put_bytes(const void* data, std::size_t bytes);
  void get_bytes(void* data, std::size_t bytes);
  int fd_;
};

using Environment = std::map<std::string, std::string>;
using Part = std::function<void(Net&, Line&)>;

struct PairOptions {
  int version = Net::kNewest;
  int nics = 2;
  Environment both = {};
  Environment first = {};
  Environment second = {};
  bool second_is_killed = false;  // its end is not looked at
};

// Runs `first` and `second` in a process each, between init() and finalize(). Empty: both ended without fail_part().
std::string run_pair(const PairOptions& options, const Part& first, const Part& second);

// Ends this part with a sentence.
[[noreturn]] void fail_part(const std::string& why);
inline void expect(bool good, const std::string& why) {
  if (!good) fail_part(why);
}
inline void expect_ok(nccl::NetResult result, const std::string& what) {
  if (result != nccl::kSuccess) fail_part(what + " gave " + std::to_string(result));
}

// ---- what NCCL does -------------------------------------------------------------------------------------------------

void* connect_to(Net& net, Net::Handle handle);
void* accept_one(Net& net, void* listener);
void* open_sender(Net& net, Line& line);
void* open_receiver(Net& net, Line& line);
// Polls until the request is over; at most 30 s. `sizes` may be null.
nccl::NetResult finish(Net& net, void* request, int* sizes = nullptr);
void* must_send(Net& net, void* sender, void* data, std::size_t bytes, int tag = 0);
void* must_receive(Net& net, void* receiver, const std::vector<Received>& parts);

Instant now();

// Bytes that depend on the seed and on their position.
void fill_pattern(std::vector<std::uint8_t>& data, std::uint64_t seed);
bool has_pattern(const std::uint8_t* data, std::size_t bytes, std::uint64_t seed);

}  // namespace r2ccl::plugin
