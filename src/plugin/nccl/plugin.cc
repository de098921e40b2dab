#include "plugin/nccl/plugin.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "plugin/devices.h"
#include "plugin/endpoint.h"
#include "plugin/handle.h"
#include "plugin/nccl/nccl_log.h"
#include "topology/discover/discover.h"

namespace r2ccl::plugin {
namespace {

// What listen() makes: the connection it will become.
struct Listener {
  NetComm* connection;  // null: accepted
};

struct Plugin {
  Plugin(const Settings& values, nccl::Logger logger, nccl::Profiler callback)
      : settings(values), log(values.log_level()), profiler(callback) {
    log.use(logger);
  }

  Settings settings;
  NcclLog log;
  std::atomic<nccl::Profiler> profiler;  // null: none
  std::vector<NetDevice> devices;
  std::unique_ptr<Endpoint> sends, receives;
  std::mutex mutex;  // guards what follows
  std::map<Secret, NetComm*> connecting;
};

// The plugin of this process. Its mutex guards everything but calls on connections, which exist only while it does.
struct Home {
  std::mutex mutex;
  int users = 0;
  pid_t process = 0;
  std::unique_ptr<Plugin> plugin;
  Plugin* of_the_parent = nullptr;

  // A forked child has our memory but none of our threads: it must leave everything alone.
  void forget_if_forked() {
    if (plugin && process != ::getpid()) of_the_parent = plugin.release();
  }
};

// Never destroyed: threads of NCCL may call on while the program ends.
Home& home() {
  static Home* const instance = new Home;
  return *instance;
}

// Says goodbye and ends the threads where nobody has finalized the plugin when its code is unloaded or its process
// ends.
struct AtTheEnd {
  ~AtTheEnd() {
    Home& here = home();
    here.forget_if_forked();
    if (!here.plugin) return;
    here.plugin->receives->say_goodbye();
    here.plugin->sends->say_goodbye();
  }
} at_the_end;

nccl::NetResult result_of(const Error& error) {
  switch (error.fault) {
    case Fault::kMisuse:
    case Fault::kCallsDiffer:
      return nccl::kInvalidUsage;
    case Fault::kPeerDown:
    case Fault::kAborted:
    case Fault::kGroupEnded:
      return nccl::kRemoteError;
    case Fault::kPathDown:
    case Fault::kBusy:
      return nccl::kSystemError;
    case Fault::kBug:
      break;
  }
  return nccl::kInternalError;
}

void say(nccl::Logger logger, std::string_view line) {
  NcclLog log(LogLevel::kDebug);
  log.use(logger);
  log.write(LogLevel::kWarn, line);
}

// No exception crosses into NCCL.
template <class Body>
nccl::NetResult guarded(Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    if (Plugin* const plugin = home().plugin.get())
      plugin->log.write(LogLevel::kError, std::string("Internal error: ") + error.what());
  }
  return nccl::kInternalError;
}

nccl::NetResult refuse(const Error& error) {
  home().plugin->log.write(LogLevel::kError, error.what);
  return result_of(error);
}

Status start(Plugin& plugin) {
  const auto nics = discover_nics(nic_request(plugin.settings));
  if (!nics) return std::unexpected(nics.error());
  plugin.devices = make_devices(*nics, read_interfaces(), plugin.settings.net_devices == "pooled");
  for (auto* endpoint : {&plugin.receives, &plugin.sends}) {
    auto made = Endpoint::create(plugin.settings, plugin.log);
    if (!made) return std::unexpected(made.error());
    *endpoint = std::move(*made);
  }
  std::string names;
  for (const Nic& nic : *nics) names += (names.empty() ? "" : ", ") + nic.name;
  plugin.log.write(LogLevel::kInfo, "Using all of " + names + " for every connection.");
  return {};
}

std::span<std::byte, nccl::kHandleBytes> bytes_of(void* handle) {
  return std::span<std::byte, nccl::kHandleBytes>(static_cast<std::byte*>(handle), nccl::kHandleBytes);
}

// What connect and accept say about a connection that is being made.
nccl::NetResult settled(NetComm& connection, void** out) {
  *out = nullptr;
  connection.endpoint().poll();
  switch (connection.state()) {
    case NetComm::State::kMeeting:
      return nccl::kSuccess;
    case NetComm::State::kFailed:
      return connection.failure();
    case NetComm::State::kOpen:
      *out = &connection;
      return nccl::kSuccess;
  }
  return nccl::kInternalError;
}

// A profiler that fails is the profiler's affair.
void begin_event(NetRequest::Part& part, bool sends, void* parent) {
  part.event = nullptr;
  const nccl::Profiler profiler = home().plugin->profiler.load(std::memory_order_relaxed);
  if (profiler == nullptr || parent == nullptr) return;
  nccl::SocketEvent event{1, -1, sends ? 0 : 1, part.memory.size()};
  profiler(&part.event, nccl::kEventStart, parent, nccl::kSocketEventKind, &event);
}

void end_events(NetRequest& request) {
  for (int part = 0; part < request.count; ++part) {
    void*& event = request.parts[part].event;
    if (event == nullptr) continue;
    if (const nccl::Profiler profiler = home().plugin->profiler.load(std::memory_order_relaxed))
      profiler(&event, nccl::kEventStop, nullptr, 0, nullptr);
    event = nullptr;
  }
}

}  // namespace

nccl::NetResult init(nccl::Logger logger, nccl::Profiler profiler) {
  return guarded([&] {
    Home& here = home();
    const std::lock_guard lock(here.mutex);
    here.forget_if_forked();
    if (here.plugin) {
      ++here.users;
      here.plugin->log.use(logger);
      here.plugin->profiler = profiler;
      return nccl::kSuccess;
    }
    const auto settings = Settings::parse(environment_of(environ));
    if (!settings) {
      say(logger, settings.error().what);
      return nccl::kInvalidUsage;
    }
    auto made = std::make_unique<Plugin>(*settings, logger, profiler);
    if (const Status status = start(*made); !status) {
      say(logger, status.error().what);
      return nccl::kSystemError;
    }
    here.plugin = std::move(made);
    here.process = ::getpid();
    here.users = 1;
    return nccl::kSuccess;
  });
}

nccl::NetResult finalize() {
  return guarded([&] {
    Home& here = home();
    const std::lock_guard lock(here.mutex);
    if (here.users > 0) --here.users;
    if (here.users == 0) here.plugin.reset();
    return nccl::kSuccess;
  });
}

nccl::NetResult devices(int* count) {
  *count = static_cast<int>(home().plugin->devices.size());
  return nccl::kSuccess;
}

nccl::NetResult properties(int device, Properties* out) {
  auto& all = home().plugin->devices;
  if (device < 0 || static_cast<std::size_t>(device) >= all.size()) return nccl::kInvalidArgument;
  NetDevice& one = all[static_cast<std::size_t>(device)];
  *out = {one.name.data(), one.pci_path.empty() ? nullptr : one.pci_path.data(), one.guid, one.speed_mbit_s, one.rail};
  return nccl::kSuccess;
}

nccl::NetResult listen(int, void* handle, void** listener) {
  return guarded([&] {
    const auto listening = home().plugin->receives->listen();
    if (!listening) return refuse(listening.error());
    write_handle(listening->id, bytes_of(handle));
    *listener = new Listener{listening->connection};
    return nccl::kSuccess;
  });
}

nccl::NetResult connect(int, void* handle, void** sender) {
  return guarded([&] {
    const auto id = read_handle(bytes_of(handle));
    if (!id) return refuse(id.error());
    Plugin& plugin = *home().plugin;
    const std::lock_guard lock(plugin.mutex);
    NetComm*& connection = plugin.connecting[id->secret];
    if (connection == nullptr) connection = plugin.sends->connect(*id);
    NetComm& made = *connection;
    const nccl::NetResult result = settled(made, sender);
    if (*sender != nullptr || result != nccl::kSuccess) plugin.connecting.erase(id->secret);
    if (result != nccl::kSuccess) made.endpoint().close(made);
    return result;
  });
}

nccl::NetResult accept(void* listener, void** receiver) {
  return guarded([&] {
    Listener& waiting = *static_cast<Listener*>(listener);
    if (waiting.connection == nullptr) {
      *receiver = nullptr;
      return nccl::kInvalidUsage;
    }
    const nccl::NetResult result = settled(*waiting.connection, receiver);
    if (*receiver != nullptr) waiting.connection = nullptr;
    return result;
  });
}

nccl::NetResult close_connection(void* connection) {
  return guarded([&] {
    if (connection == nullptr) return nccl::kSuccess;
    NetComm& over = *static_cast<NetComm*>(connection);
    over.endpoint().close(over);
    return nccl::kSuccess;
  });
}

nccl::NetResult close_listener(void* listener) {
  return guarded([&] {
    const std::unique_ptr<Listener> over(static_cast<Listener*>(listener));
    if (over && over->connection != nullptr) over->connection->endpoint().close(*over->connection);
    return nccl::kSuccess;
  });
}

nccl::NetResult register_memory(void* data, std::size_t, int type, void** memory) {
  *memory = nullptr;
  if (type != nccl::kPointerHost) {
    home().plugin->log.write(LogLevel::kError, "Only host memory can be registered.");
    return nccl::kInvalidUsage;
  }
  *memory = data;
  return nccl::kSuccess;
}

nccl::NetResult send(void* sender, void* data, std::size_t size, int tag, void* parent, void** request) {
  return guarded([&] {
    NetComm& connection = *static_cast<NetComm*>(sender);
    *request = nullptr;
    if (connection.state() == NetComm::State::kFailed) return connection.failure();
    NetRequest* const made = connection.take();
    if (made == nullptr) return nccl::kSuccess;
    made->count = 1;
    made->parts[0].memory.name(data, size);
    made->parts[0].tag = static_cast<std::uint32_t>(tag);
    begin_event(made->parts[0], true, parent);
    connection.endpoint().submit(*made);
    *request = made;
    return nccl::kSuccess;
  });
}

nccl::NetResult receive(void* receiver, int count, void* const* data, const std::size_t* sizes, const int* tags,
                        void* const* parents, void** request) {
  return guarded([&] {
    NetComm& connection = *static_cast<NetComm*>(receiver);
    *request = nullptr;
    if (count < 1 || count > kGroupedMax) return nccl::kInvalidArgument;
    if (connection.state() == NetComm::State::kFailed) return connection.failure();
    NetRequest* const made = connection.take();
    if (made == nullptr) return nccl::kSuccess;
    made->count = count;
    for (int part = 0; part < count; ++part) {
      made->parts[part].memory.name(data[part], sizes[part]);
      made->parts[part].tag = static_cast<std::uint32_t>(tags[part]);
      begin_event(made->parts[part], false, parents == nullptr ? nullptr : parents[part]);
    }
    connection.endpoint().submit(*made);
    *request = made;
    return nccl::kSuccess;
  });
}

nccl::NetResult test(void* request, int* done, int* sizes) {
  return guarded([&] {
    NetRequest& asked = *static_cast<NetRequest*>(request);
    *done = 0;
    if (asked.open.load(std::memory_order_acquire) != 0) {
      asked.connection->endpoint().poll();
      if (asked.open.load(std::memory_order_acquire) != 0) return nccl::kSuccess;
    }
    const nccl::NetResult result = asked.result.load(std::memory_order_relaxed);
    if (result == nccl::kSuccess) {
      *done = 1;
      if (sizes != nullptr) {
        for (int part = 0; part < asked.count; ++part) sizes[part] = static_cast<int>(asked.parts[part].moved);
      }
    }
    end_events(asked);
    asked.connection->give_back(asked);
    return result;
  });
}

}  // namespace r2ccl::plugin
