// The five interface versions, each a thin adapter of plugin.h. The symbols are what NCCL looks up.

#include <array>

#include "plugin/nccl/plugin.h"
#include "plugin/net_comm.h"

namespace r2ccl::plugin {
namespace {

using nccl::NetResult;

constexpr const char* kName = "R2CCL";
constexpr int kCommsMax = 64 * 1024;

// ---- properties --------------------------------------------------------------------------------------------------

template <class Out>
NetResult get_properties(int device, Out* out) {
  plugin::Properties from{};
  if (const NetResult result = plugin::properties(device, &from); result != nccl::kSuccess) return result;
  *out = {};
  out->name = from.name;
  out->pci_path = from.pci_path;
  out->guid = from.guid;
  out->pointer_support = nccl::kPointerHost;
  out->speed_mbit_s = from.speed_mbit_s;
  out->comms_max = kCommsMax;
  out->receives_max = kGroupedMax;
  out->device_type = nccl::kDeviceHost;
  if constexpr (requires { out->parts; }) {
    out->parts.count = 1;
    out->parts.devices[0] = device;
    out->point_bytes_max = nccl::kTransferMax;
    out->collective_bytes_max = nccl::kTransferMax;
  }
  if constexpr (requires { out->multi_request_max; }) out->multi_request_max = 1;
  if constexpr (requires { out->rail; }) {
    out->rail = static_cast<std::int16_t>(from.rail);
    out->plane = nccl::kUndefined;
  }
  return nccl::kSuccess;
}

// ---- calls that differ between versions --------------------------------------------------------------------------

NetResult init_v8(nccl::Logger logger) {
  return plugin::init(logger, nullptr);
}
NetResult init_v10(nccl::Logger logger, nccl::Profiler profiler) {
  return plugin::init(logger, profiler);
}
// The context says nothing: connections of all communicators share the sessions of the process. Not null, so that NCCL
// has something to hand back.
NetResult init_v11(void** context, std::uint64_t, nccl::NetCommConfig*, nccl::Logger logger, nccl::Profiler profiler) {
  static char something;
  *context = &something;
  return plugin::init(logger, profiler);
}
NetResult finalize_v11(void*) {
  return plugin::finalize();
}
NetResult set_attributes(void*, nccl::Attributes*) {
  return nccl::kSuccess;
}

NetResult listen_v8(int device, void* handle, void** listener) {
  return plugin::listen(device, handle, listener);
}
NetResult listen_v11(void*, int device, void* handle, void** listener) {
  return plugin::listen(device, handle, listener);
}
NetResult connect_v8(int device, void* handle, void** sender, nccl::DeviceHandle**) {
  return plugin::connect(device, handle, sender);
}
NetResult connect_v10(int device, nccl::NetCommConfig*, void* handle, void** sender, nccl::DeviceHandle**) {
  return plugin::connect(device, handle, sender);
}
NetResult connect_v11(void*, int device, void* handle, void** sender, nccl::DeviceHandle**) {
  return plugin::connect(device, handle, sender);
}
NetResult accept_all(void* listener, void** receiver, nccl::DeviceHandle**) {
  return plugin::accept(listener, receiver);
}

NetResult isend_v8(void* sender, void* data, int size, int tag, void*, void** request) {
  return plugin::send(sender, data, static_cast<std::size_t>(size), tag, nullptr, request);
}
NetResult isend_v9(void* sender, void* data, std::size_t size, int tag, void*, void** request) {
  return plugin::send(sender, data, size, tag, nullptr, request);
}
NetResult isend_v10(void* sender, void* data, std::size_t size, int tag, void*, void* parent, void** request) {
  return plugin::send(sender, data, size, tag, parent, request);
}

NetResult irecv_v8(void* receiver, int count, void** data, int* sizes, int* tags, void**, void** request) {
  if (count < 1 || count > kGroupedMax) return nccl::kInvalidArgument;
  std::array<std::size_t, kGroupedMax> wide{};
  for (int i = 0; i < count; ++i) wide[static_cast<std::size_t>(i)] = static_cast<std::size_t>(sizes[i]);
  return plugin::receive(receiver, count, data, wide.data(), tags, nullptr, request);
}
NetResult irecv_v9(void* receiver, int count, void** data, std::size_t* sizes, int* tags, void**, void** request) {
  return plugin::receive(receiver, count, data, sizes, tags, nullptr, request);
}
NetResult irecv_v10(void* receiver, int count, void** data, std::size_t* sizes, int* tags, void**, void** parents,
                    void** request) {
  return plugin::receive(receiver, count, data, sizes, tags, parents, request);
}

// ---- calls that do not -------------------------------------------------------------------------------------------

NetResult reg_mr(void*, void* data, std::size_t size, int type, void** memory) {
  return plugin::register_memory(data, size, type, memory);
}
NetResult reg_mr_dma_buf(void*, void* data, std::size_t size, int, std::uint64_t, int, void** memory) {
  return plugin::register_memory(data, size, nccl::kPointerCuda, memory);
}
NetResult dereg_mr(void*, void*) {
  return nccl::kSuccess;
}
// Host memory needs no flush; no request means that it is over.
NetResult iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return nccl::kSuccess;
}
// Only for networks that a GPU drives by itself. NCCL calls the second after every receive unless it is null.
constexpr std::nullptr_t get_device_mr = nullptr;
constexpr std::nullptr_t irecv_consumed = nullptr;

template <class Net>
constexpr Net with_context() {
  return {kName,
          init_v11,
          plugin::devices,
          get_properties,
          listen_v11,
          connect_v11,
          accept_all,
          reg_mr,
          reg_mr_dma_buf,
          dereg_mr,
          isend_v10,
          irecv_v10,
          iflush,
          plugin::test,
          plugin::close_connection,
          plugin::close_connection,
          plugin::close_listener,
          get_device_mr,
          irecv_consumed,
          nullptr,
          finalize_v11,
          set_attributes};
}

}  // namespace
}  // namespace r2ccl::plugin

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

// NCCL fuses no devices where the function for it is null: the plugin has fused them all already.
extern const r2ccl::plugin::nccl::NetV8 ncclNetPlugin_v8;
extern const r2ccl::plugin::nccl::NetV9 ncclNetPlugin_v9;
extern const r2ccl::plugin::nccl::NetV10 ncclNetPlugin_v10;
extern const r2ccl::plugin::nccl::NetV11 ncclNetPlugin_v11;
extern const r2ccl::plugin::nccl::NetV12 ncclNetPlugin_v12;

const r2ccl::plugin::nccl::NetV8 ncclNetPlugin_v8 = {r2ccl::plugin::kName,
                                                     r2ccl::plugin::init_v8,
                                                     r2ccl::plugin::devices,
                                                     r2ccl::plugin::get_properties,
                                                     r2ccl::plugin::listen_v8,
                                                     r2ccl::plugin::connect_v8,
                                                     r2ccl::plugin::accept_all,
                                                     r2ccl::plugin::reg_mr,
                                                     r2ccl::plugin::reg_mr_dma_buf,
                                                     r2ccl::plugin::dereg_mr,
                                                     r2ccl::plugin::isend_v8,
                                                     r2ccl::plugin::irecv_v8,
                                                     r2ccl::plugin::iflush,
                                                     r2ccl::plugin::test,
                                                     r2ccl::plugin::close_connection,
                                                     r2ccl::plugin::close_connection,
                                                     r2ccl::plugin::close_listener,
                                                     r2ccl::plugin::get_device_mr,
                                                     r2ccl::plugin::irecv_consumed};
const r2ccl::plugin::nccl::NetV9 ncclNetPlugin_v9 = {r2ccl::plugin::kName,
                                                     r2ccl::plugin::init_v8,
                                                     r2ccl::plugin::devices,
                                                     r2ccl::plugin::get_properties,
                                                     r2ccl::plugin::listen_v8,
                                                     r2ccl::plugin::connect_v8,
                                                     r2ccl::plugin::accept_all,
                                                     r2ccl::plugin::reg_mr,
                                                     r2ccl::plugin::reg_mr_dma_buf,
                                                     r2ccl::plugin::dereg_mr,
                                                     r2ccl::plugin::isend_v9,
                                                     r2ccl::plugin::irecv_v9,
                                                     r2ccl::plugin::iflush,
                                                     r2ccl::plugin::test,
                                                     r2ccl::plugin::close_connection,
                                                     r2ccl::plugin::close_connection,
                                                     r2ccl::plugin::close_listener,
                                                     r2ccl::plugin::get_device_mr,
                                                     r2ccl::plugin::irecv_consumed,
                                                     nullptr};
const r2ccl::plugin::nccl::NetV10 ncclNetPlugin_v10 = {r2ccl::plugin::kName,
                                                       r2ccl::plugin::init_v10,
                                                       r2ccl::plugin::devices,
                                                       r2ccl::plugin::get_properties,
                                                       r2ccl::plugin::listen_v8,
                                                       r2ccl::plugin::connect_v10,
                                                       r2ccl::plugin::accept_all,
                                                       r2ccl::plugin::reg_mr,
                                                       r2ccl::plugin::reg_mr_dma_buf,
                                                       r2ccl::plugin::dereg_mr,
                                                       r2ccl::plugin::isend_v10,
                                                       r2ccl::plugin::irecv_v10,
                                                       r2ccl::plugin::iflush,
                                                       r2ccl::plugin::test,
                                                       r2ccl::plugin::close_connection,
                                                       r2ccl::plugin::close_connection,
                                                       r2ccl::plugin::close_listener,
                                                       r2ccl::plugin::get_device_mr,
                                                       r2ccl::plugin::irecv_consumed,
                                                       nullptr};
const r2ccl::plugin::nccl::NetV11 ncclNetPlugin_v11 = r2ccl::plugin::with_context<r2ccl::plugin::nccl::NetV11>();
const r2ccl::plugin::nccl::NetV12 ncclNetPlugin_v12 = r2ccl::plugin::with_context<r2ccl::plugin::nccl::NetV12>();

// NOLINTEND(readability-identifier-naming)
}
