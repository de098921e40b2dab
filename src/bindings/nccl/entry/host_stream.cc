#include <map>

#include <r2ccl.h>

#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/launch_state.h"

namespace r2ccl::bindings {

HostStream::HostStream() : thread_([this] { run(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(launch_lock().mutex);
    stop_ = true;
    launch_lock().changed.notify_all();
  }
  thread_.join();
}

void HostStream::push(std::shared_ptr<Launch> launch) {
  queue_.push_back(std::move(launch));
}

void HostStream::run() {
  std::unique_lock lock(launch_lock().mutex);
  while (true) {
    launch_lock().changed.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto launch = queue_.front();
    lock.unlock();
    arrive(launch);
    lock.lock();
    if (error_.ok()) error_ = launch->outcome;
    queue_.pop_front();
    launch_lock().changed.notify_all();
  }
}

bool HostStream::idle() {
  const std::lock_guard lock(launch_lock().mutex);
  return queue_.empty();
}

Outcome HostStream::wait() {
  std::unique_lock lock(launch_lock().mutex);
  launch_lock().changed.wait(lock, [&] { return queue_.empty(); });
  return std::exchange(error_, {});
}

Outcome HostStream::take_error() {
  const std::lock_guard lock(launch_lock().mutex);
  return std::exchange(error_, {});
}

namespace {

struct Streams {
  std::mutex mutex;
  std::map<cudaStream_t, std::shared_ptr<HostStream>> live;
};
// Kept until exit, as their threads may be.
Streams& streams() {
  static auto* const kStreams = new Streams;
  return *kStreams;
}

cudaStream_t handle_of(const HostStream* stream) {
  return reinterpret_cast<cudaStream_t>(const_cast<HostStream*>(stream));
}

// For calls that need a host stream: one of the default streams will not do.
Outcome require_stream(const char* name, cudaStream_t handle, std::shared_ptr<HostStream>& stream) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().live.find(handle);
  if (found == streams().live.end()) return invalid_argument(std::string(name) + ": not a stream of r2cclStreamCreate");
  stream = found->second;
  return {};
}

}  // namespace

Outcome find_stream(cudaStream_t handle, std::shared_ptr<HostStream>& stream) {
  // CUDA's names of its default streams: cudaStreamLegacy is 1, cudaStreamPerThread is 2.
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return {};
  if (require_stream("stream", handle, stream).ok()) return {};
  return invalid_argument(
      "the stream is neither NULL nor one of r2cclStreamCreate; buffers are host memory, so CUDA streams have no "
      "meaning");
}

}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

extern "C" ncclResult_t r2cclStreamCreate(cudaStream_t* stream) {
  return guarded([&]() -> Outcome {
    if (stream == nullptr) return invalid_argument("r2cclStreamCreate: stream is null");
    auto made = std::make_shared<HostStream>();
    const std::lock_guard lock(streams().mutex);
    *stream = handle_of(made.get());
    streams().live[*stream] = std::move(made);
    return {};
  });
}

extern "C" ncclResult_t r2cclStreamSynchronize(cudaStream_t stream) {
  return guarded([&]() -> Outcome {
    std::shared_ptr<HostStream> found;
    if (auto bad = require_stream("r2cclStreamSynchronize", stream, found); !bad.ok()) return bad;
    return found->wait();
  });
}

extern "C" ncclResult_t r2cclStreamQuery(cudaStream_t stream) {
  return guarded([&]() -> Outcome {
    std::shared_ptr<HostStream> found;
    if (auto bad = require_stream("r2cclStreamQuery", stream, found); !bad.ok()) return bad;
    if (!found->idle()) return {ncclInProgress, ""};
    return found->take_error();
  });
}

extern "C" ncclResult_t r2cclStreamDestroy(cudaStream_t stream) {
  return guarded([&]() -> Outcome {
    std::shared_ptr<HostStream> found;
    if (auto bad = require_stream("r2cclStreamDestroy", stream, found); !bad.ok()) return bad;
    {
      const std::lock_guard lock(streams().mutex);
      streams().live.erase(stream);
    }
    return found->wait();
  });
}
