#pragma once
// NCCL's network plugin interface, versions 8 to 12: layouts that NCCL's loader expects, in our own words. What NCCL
// calls `ncclNetPlugin_vN` is an object of type NetVN here. Nothing in this file decides anything.
//
//   v8 → v9    sizes are size_t; forced flush, virtual devices, largest transfers
//   v9 → v10   profiler in init, profiler handles in isend and irecv, traffic class in connect
//   v10 → v11  a context per communicator, finalize, attributes, requests of several parts
//   v11 → v12  eight devices in a virtual one, rail and plane
//
// Contract   A call never blocks. connect and accept give null until the connection stands; isend and irecv give a null
//            request when they can not take one now; test says whether a request is over.

#include <cstddef>
#include <cstdint>

namespace r2ccl::plugin::nccl {

enum NetResult : int {
  kSuccess = 0,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
};

inline constexpr int kOldestInterface = 8;
inline constexpr int kNewestInterface = 12;

inline constexpr int kHandleBytes = 128;
inline constexpr int kPointerHost = 1;
inline constexpr int kPointerCuda = 2;
inline constexpr int kRequestsMax = 32;  // per connection; a sender has so many for each grouped receive
inline constexpr std::int64_t kTransferMax = std::int64_t{1} << 40;
inline constexpr int kDeviceHost = 0;           // no offload
inline constexpr std::int16_t kUndefined = -1;  // rail and plane

enum LogLevelCode : int { kLogWarn = 2, kLogInfo = 3, kLogTrace = 5 };
inline constexpr unsigned long kSubsystemInit = 0x1;
inline constexpr unsigned long kSubsystemNet = 0x10;
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

// Events for NCCL's profilers: begun with what NCCL gave as parent, and told apart by what the callback puts into
// `event`. Ours look like those of NCCL's own sockets, so that profilers know how to read them.
enum ProfilerStep : int { kEventStart = 0, kEventStop = 1 };
using Profiler = NetResult (*)(void** event, int step, void* parent, std::int64_t kind, void* data);
inline constexpr std::int64_t kSocketEventKind = (std::int64_t{2} << 16) | 1;  // sockets, version 1
struct SocketEvent {
  std::uint8_t type;          // 1: a transfer
  alignas(8) int descriptor;  // -1: over many
  int operation;              // 0: send, 1: receive
  std::size_t bytes;
};

using DeviceHandle = void;  // of device offload, which is not offered

template <int kDevices>
struct VirtualDevice {
  int count;
  int devices[kDevices];
};
using VirtualDevice4 = VirtualDevice<4>;
using VirtualDevice8 = VirtualDevice<8>;

struct NetCommConfig {
  int traffic_class;
};

struct PropertiesV8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed_mbit_s;
  int port;
  float latency_us;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
};

struct PropertiesV9 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbit_s;
  int port;
  float latency_us;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
  VirtualDevice4 parts;
  std::size_t point_bytes_max;
  std::size_t collective_bytes_max;
};
using PropertiesV10 = PropertiesV9;

struct PropertiesV11 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbit_s;
  int port;
  float latency_us;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
  VirtualDevice4 parts;
  std::size_t point_bytes_max;
  std::size_t collective_bytes_max;
  int multi_request_max;
};

struct PropertiesV12 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbit_s;
  int port;
  float latency_us;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
  VirtualDevice8 parts;
  std::size_t point_bytes_max;
  std::size_t collective_bytes_max;
  int multi_request_max;
  std::int16_t rail;
  std::int16_t plane;
};

struct FlowAttributes {
  std::int32_t peers_max, peers_min, flows_max, flows_min;
};
struct Attributes {
  FlowAttributes send, receive;
  std::uint32_t operation, algorithm, protocol;
};

struct NetV8 {
  const char* name;
  NetResult (*init)(Logger);
  NetResult (*devices)(int*);
  NetResult (*get_properties)(int, PropertiesV8*);
  NetResult (*listen)(int, void*, void**);
  NetResult (*connect)(int, void*, void**, DeviceHandle**);
  NetResult (*accept)(void*, void**, DeviceHandle**);
  NetResult (*reg_mr)(void*, void*, std::size_t, int, void**);
  NetResult (*reg_mr_dma_buf)(void*, void*, std::size_t, int, std::uint64_t, int, void**);
  NetResult (*dereg_mr)(void*, void*);
  NetResult (*isend)(void*, void*, int, int, void*, void**);
  NetResult (*irecv)(void*, int, void**, int*, int*, void**, void**);
  NetResult (*iflush)(void*, int, void**, int*, void**, void**);
  NetResult (*test)(void*, int*, int*);
  NetResult (*close_send)(void*);
  NetResult (*close_recv)(void*);
  NetResult (*close_listen)(void*);
  NetResult (*get_device_mr)(void*, void*, void**);
  NetResult (*irecv_consumed)(void*, int, void*);
};

struct NetV9 {
  const char* name;
  NetResult (*init)(Logger);
  NetResult (*devices)(int*);
  NetResult (*get_properties)(int, PropertiesV9*);
  NetResult (*listen)(int, void*, void**);
  NetResult (*connect)(int, void*, void**, DeviceHandle**);
  NetResult (*accept)(void*, void**, DeviceHandle**);
  NetResult (*reg_mr)(void*, void*, std::size_t, int, void**);
  NetResult (*reg_mr_dma_buf)(void*, void*, std::size_t, int, std::uint64_t, int, void**);
  NetResult (*dereg_mr)(void*, void*);
  NetResult (*isend)(void*, void*, std::size_t, int, void*, void**);
  NetResult (*irecv)(void*, int, void**, std::size_t*, int*, void**, void**);
  NetResult (*iflush)(void*, int, void**, int*, void**, void**);
  NetResult (*test)(void*, int*, int*);
  NetResult (*close_send)(void*);
  NetResult (*close_recv)(void*);
  NetResult (*close_listen)(void*);
  NetResult (*get_device_mr)(void*, void*, void**);
  NetResult (*irecv_consumed)(void*, int, void*);
  NetResult (*make_virtual_device)(int*, VirtualDevice4*);
};

struct NetV10 {
  const char* name;
  NetResult (*init)(Logger, Profiler);
  NetResult (*devices)(int*);
  NetResult (*get_properties)(int, PropertiesV10*);
  NetResult (*listen)(int, void*, void**);
  NetResult (*connect)(int, NetCommConfig*, void*, void**, DeviceHandle**);
  NetResult (*accept)(void*, void**, DeviceHandle**);
  NetResult (*reg_mr)(void*, void*, std::size_t, int, void**);
  NetResult (*reg_mr_dma_buf)(void*, void*, std::size_t, int, std::uint64_t, int, void**);
  NetResult (*dereg_mr)(void*, void*);
  NetResult (*isend)(void*, void*, std::size_t, int, void*, void*, void**);
  NetResult (*irecv)(void*, int, void**, std::size_t*, int*, void**, void**, void**);
  NetResult (*iflush)(void*, int, void**, int*, void**, void**);
  NetResult (*test)(void*, int*, int*);
  NetResult (*close_send)(void*);
  NetResult (*close_recv)(void*);
  NetResult (*close_listen)(void*);
  NetResult (*get_device_mr)(void*, void*, void**);
  NetResult (*irecv_consumed)(void*, int, void*);
  NetResult (*make_virtual_device)(int*, VirtualDevice4*);
};

// v11 and v12 differ in their properties and in how many devices make a virtual one.
template <class Properties, class Virtual>
struct NetWithContext {
  const char* name;
  NetResult (*init)(void**, std::uint64_t, NetCommConfig*, Logger, Profiler);
  NetResult (*devices)(int*);
  NetResult (*get_properties)(int, Properties*);
  NetResult (*listen)(void*, int, void*, void**);
  NetResult (*connect)(void*, int, void*, void**, DeviceHandle**);
  NetResult (*accept)(void*, void**, DeviceHandle**);
  NetResult (*reg_mr)(void*, void*, std::size_t, int, void**);
  NetResult (*reg_mr_dma_buf)(void*, void*, std::size_t, int, std::uint64_t, int, void**);
  NetResult (*dereg_mr)(void*, void*);
  NetResult (*isend)(void*, void*, std::size_t, int, void*, void*, void**);
  NetResult (*irecv)(void*, int, void**, std::size_t*, int*, void**, void**, void**);
  NetResult (*iflush)(void*, int, void**, int*, void**, void**);
  NetResult (*test)(void*, int*, int*);
  NetResult (*close_send)(void*);
  NetResult (*close_recv)(void*);
  NetResult (*close_listen)(void*);
  NetResult (*get_device_mr)(void*, void*, void**);
  NetResult (*irecv_consumed)(void*, int, void*);
  NetResult (*make_virtual_device)(int*, Virtual*);
  NetResult (*finalize)(void*);
  NetResult (*set_attributes)(void*, Attributes*);
};
using NetV11 = NetWithContext<PropertiesV11, VirtualDevice4>;
using NetV12 = NetWithContext<PropertiesV12, VirtualDevice8>;

static_assert(sizeof(void*) == 8 && sizeof(int) == 4, "the layouts below are those of 64-bit systems");
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, speed_mbit_s) == 32);
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, speed_mbit_s) == 36);
static_assert(offsetof(PropertiesV9, parts) == 64 && offsetof(PropertiesV9, point_bytes_max) == 88);
static_assert(sizeof(PropertiesV11) == 112 && offsetof(PropertiesV11, multi_request_max) == 104);
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, point_bytes_max) == 104);
static_assert(offsetof(PropertiesV12, multi_request_max) == 120 && offsetof(PropertiesV12, plane) == 126);
static_assert(sizeof(SocketEvent) == 24 && offsetof(SocketEvent, descriptor) == 8 &&
              offsetof(SocketEvent, bytes) == 16);
static_assert(sizeof(Attributes) == 44);
static_assert(sizeof(NetV8) == 19 * 8 && sizeof(NetV9) == 20 * 8 && sizeof(NetV10) == 20 * 8);
static_assert(sizeof(NetV11) == 22 * 8 && sizeof(NetV12) == 22 * 8);
static_assert(offsetof(NetV8, test) == 13 * 8 && offsetof(NetV10, isend) == 10 * 8 &&
              offsetof(NetV11, finalize) == 20 * 8);

}  // namespace r2ccl::plugin::nccl
