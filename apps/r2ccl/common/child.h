#pragma once
// Processes that a command makes of itself: forked before any thread exists, joined to the parent by a pair of sockets
// that carry lines, and gone when the parent is.
//
// Ownership  Children ends and collects its processes, kindly or not, before it goes.
// Failure    A child that ends early closes its channel; the parent sees that as closed() and goes on.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace r2ccl::apps {

// One end of a pair of sockets that carries lines both ways. One thread at a time.
class LineChannel final {
 public:
  static constexpr std::size_t kLineBytesMax = 1024 * 1024;

  explicit LineChannel(int fd) : fd_(fd) {}  // owns it
  ~LineChannel();
  LineChannel(const LineChannel&) = delete;
  LineChannel& operator=(const LineChannel&) = delete;

  int fd() const { return fd_; }
  // Waits while the other end does not read. False when it is gone.
  bool send(std::string_view line);
  // The next line, waiting for it until the deadline. Nothing: too late, or closed().
  std::optional<std::string> receive(Instant deadline);
  bool closed() const { return closed_; }  // the other end is gone, and every line was taken

 private:
  std::optional<std::string> take_line();
  void read_some();
  const int fd_;
  std::string buffer_;
  bool closed_ = false;
};

class Children final {
 public:
  // Its result is the child's exit status.
  using Body = std::function<int(LineChannel& parent)>;

  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  Status start(const Body& body);
  std::size_t count() const { return children_.size(); }
  LineChannel& channel(std::size_t index) { return *children_[index].channel; }
  // Sleeps until a channel has something to read or is closed, or until the deadline.
  void wait(Instant deadline);
  // Collects all children; those still running at the deadline are killed. True if every one exited with 0.
  bool join(Instant deadline);

 private:
  struct Child {
    pid_t pid;
    std::unique_ptr<LineChannel> channel;
    bool collected = false;
  };
  static bool collect(Child& child, bool& ok);
  std::vector<Child> children_;
};

}  // namespace r2ccl::apps
