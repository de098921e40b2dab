#include "tests/plugin/net.h"

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace r2ccl::plugin {
namespace {

std::mutex log_mutex;
std::vector<std::string> log_lines;

void take_line(int level, unsigned long subsystems, const char*, int, const char* format, ...) {
  std::array<char, 2048> line{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log_mutex);
  log_lines.push_back((level == nccl::kLogWarn ? "WARN " : "INFO ") + std::string(line.data()));
  if ((subsystems & nccl::kSubsystemNet) == 0) log_lines.back() += " (not of the network!)";
}

Profiled profile;  // under log_mutex
char parent_of_events;

nccl::NetResult take_event(void** event, int step, void* parent, std::int64_t kind, void* data) {
  const std::lock_guard lock(log_mutex);
  if (step == nccl::kEventStop && *event == &profile) ++profile.stopped;
  if (step != nccl::kEventStart || parent != &parent_of_events || kind != nccl::kSocketEventKind) return nccl::kSuccess;
  *event = &profile;
  ++profile.started;
  const auto& what = *static_cast<const nccl::SocketEvent*>(data);
  (what.operation == 0 ? profile.sent_bytes : profile.received_bytes) += what.bytes;
  return nccl::kSuccess;
}

template <class Interface>
class NetOf final : public Net {
 public:
  explicit NetOf(const Interface* interface) : net_(*interface) {}

  nccl::NetResult init() override {
    if constexpr (kContext) {
      nccl::NetCommConfig config{-1};
      return net_.init(&context_, 1, &config, take_line, take_event);
    } else if constexpr (kProfiler) {
      return net_.init(take_line, take_event);
    } else {
      return net_.init(take_line);
    }
  }
  nccl::NetResult finalize() override {
    if constexpr (kContext) {
      nccl::Attributes attributes{};
      if (net_.set_attributes(context_, &attributes) != nccl::kSuccess) return nccl::kInternalError;
      return net_.finalize(context_);
    }
    return nccl::kSuccess;
  }
  int devices() override {
    int count = 0;
    return net_.devices(&count) == nccl::kSuccess ? count : -1;
  }
  nccl::PropertiesV12 properties(int device) override {
    Properties from{};
    nccl::PropertiesV12 out{};
    if (net_.get_properties(device, &from) != nccl::kSuccess) return out;
    out.name = from.name;
    out.pci_path = from.pci_path;
    out.guid = from.guid;
    out.pointer_support = from.pointer_support;
    out.speed_mbit_s = from.speed_mbit_s;
    out.comms_max = from.comms_max;
    out.receives_max = from.receives_max;
    return out;
  }
  nccl::NetResult listen(Handle& handle, void** listener) override {
    if constexpr (kContext)
      return net_.listen(context_, 0, handle.data(), listener);
    else
      return net_.listen(0, handle.data(), listener);
  }
  nccl::NetResult connect(Handle& handle, void** sender) override {
    if constexpr (kContext) {
      return net_.connect(context_, 0, handle.data(), sender, nullptr);
    } else if constexpr (kProfiler) {
      nccl::NetCommConfig config{-1};
      return net_.connect(0, &config, handle.data(), sender, nullptr);
    } else {
      return net_.connect(0, handle.data(), sender, nullptr);
    }
  }
  nccl::NetResult accept(void* listener, void** receiver) override { return net_.accept(listener, receiver, nullptr); }
  nccl::NetResult reg(void* connection, void* data, std::size_t bytes, int type, void** memory) override {
    return net_.reg_mr(connection, data, bytes, type, memory);
  }
  nccl::NetResult send(void* sender, void* data, std::size_t bytes, int tag, void** request) override {
    if constexpr (kProfiler)
      return net_.isend(sender, data, bytes, tag, data, &parent_of_events, request);
    else
      return net_.isend(sender, data, static_cast<Size>(bytes), tag, data, request);
  }
  nccl::NetResult receive(void* receiver, const std::vector<Received>& parts, void** request) override {
    std::array<void*, 16> data{}, memory{}, profiles{};
    std::array<Size, 16> sizes{};
    std::array<int, 16> tags{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      data[i] = memory[i] = parts[i].data;
      sizes[i] = static_cast<Size>(parts[i].bytes);
      tags[i] = parts[i].tag;
      profiles[i] = &parent_of_events;
    }
    const int count = static_cast<int>(parts.size());
    if constexpr (kProfiler)
      return net_.irecv(receiver, count, data.data(), sizes.data(), tags.data(), memory.data(), profiles.data(),
                        request);
    else
      return net_.irecv(receiver, count, data.data(), sizes.data(), tags.data(), memory.data(), request);
  }
  nccl::NetResult flush(void* receiver, void* data, int bytes, void** request) override {
    return net_.iflush(receiver, 1, &data, &bytes, &data, request);
  }
  nccl::NetResult test(void* request, int* done, int* sizes) override { return net_.test(request, done, sizes); }
  nccl::NetResult close_send(void* sender) override { return net_.close_send(sender); }
  nccl::NetResult close_receive(void* receiver) override { return net_.close_recv(receiver); }
  nccl::NetResult close_listen(void* listener) override { return net_.close_listen(listener); }

 private:
  static constexpr bool kContext = requires(Interface net) { net.finalize; };
  static constexpr bool kProfiler = kContext || std::is_same_v<Interface, nccl::NetV10>;
  using Size = std::conditional_t<std::is_same_v<Interface, nccl::NetV8>, int, std::size_t>;
  template <class T>
  static T properties_of(nccl::NetResult (*)(int, T*));
  using Properties = decltype(properties_of(Interface{}.get_properties));

  const Interface& net_;
  void* context_ = nullptr;
};

template <class Interface>
std::unique_ptr<Net> adapt(const void* symbol) {
  return std::make_unique<NetOf<Interface>>(static_cast<const Interface*>(symbol));
}

}  // namespace

std::string plugin_path() {
  return R2CCL_NET_PLUGIN;
}

std::unique_ptr<Net> Net::load(int version) {
  void* const library = ::dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string name = "ncclNetPlugin_v" + std::to_string(version);
  const void* const symbol = library == nullptr ? nullptr : ::dlsym(library, name.c_str());
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return nullptr;
  }
  switch (version) {
    case 8:
      return adapt<nccl::NetV8>(symbol);
    case 9:
      return adapt<nccl::NetV9>(symbol);
    case 10:
      return adapt<nccl::NetV10>(symbol);
    case 11:
      return adapt<nccl::NetV11>(symbol);
    default:
      return adapt<nccl::NetV12>(symbol);
  }
}

Profiled profiled() {
  const std::lock_guard lock(log_mutex);
  return profile;
}

const std::vector<std::string>& logged() {
  static std::vector<std::string> copy;
  const std::lock_guard lock(log_mutex);
  copy = log_lines;
  return copy;
}

}  // namespace r2ccl::plugin
