#pragma once
// The plugin as NCCL sees it: the built library is loaded and one interface version chosen. Tests make the same calls
// whatever the version.

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "plugin/nccl/nccl_net.h"

namespace r2ccl::plugin {

struct Received {
  void* data;
  std::size_t bytes;
  int tag;
};

class Net {
 public:
  using Handle = std::array<std::byte, nccl::kHandleBytes>;
  static constexpr int kOldest = 8, kNewest = 12;

  // Null if the library or the symbol is missing; says why on stderr.
  static std::unique_ptr<Net> load(int version);
  virtual ~Net() = default;

  virtual nccl::NetResult init() = 0;
  virtual nccl::NetResult finalize() = 0;  // nothing in versions without it
  virtual int devices() = 0;
  virtual nccl::PropertiesV12 properties(int device) = 0;  // what the version has; the rest is zero
  virtual nccl::NetResult listen(Handle& handle, void** listener) = 0;
  virtual nccl::NetResult connect(Handle& handle, void** sender) = 0;
  virtual nccl::NetResult accept(void* listener, void** receiver) = 0;
  virtual nccl::NetResult reg(void* connection, void* data, std::size_t bytes, int type, void** memory) = 0;
  virtual nccl::NetResult send(void* sender, void* data, std::size_t bytes, int tag, void** request) = 0;
  virtual nccl::NetResult receive(void* receiver, const std::vector<Received>& parts, void** request) = 0;
  virtual nccl::NetResult flush(void* receiver, void* data, int bytes, void** request) = 0;
  virtual nccl::NetResult test(void* request, int* done, int* sizes) = 0;
  virtual nccl::NetResult close_send(void* sender) = 0;
  virtual nccl::NetResult close_receive(void* receiver) = 0;
  virtual nccl::NetResult close_listen(void* listener) = 0;
};

// Lines that the plugin gave to NCCL's logger, in this process.
const std::vector<std::string>& logged();
// Events that the plugin gave to NCCL's profiler, in this process.
struct Profiled {
  int started = 0, stopped = 0;
  std::size_t sent_bytes = 0, received_bytes = 0;  // room, for receives
};
Profiled profiled();
std::string plugin_path();

}  // namespace r2ccl::plugin
