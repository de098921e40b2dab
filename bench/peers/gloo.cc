// Gloo's side: argv: bytes store-folder; RANK, WORLD_SIZE and IFACE (lo unless set) from the environment.
#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "measure.h"

int main(int argc, char** argv) {
  const int rank = std::atoi(std::getenv("RANK"));
  const int size = std::atoi(std::getenv("WORLD_SIZE"));
  gloo::transport::tcp::attr attr;
  const char* iface = std::getenv("IFACE");
  attr.iface = iface == nullptr ? "lo" : iface;
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(argv[2]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  peers::measure(peers::bytes_of(argc, argv), rank, [&](float* data, std::size_t count) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    options.setReduceFunction([](void* c, const void* a, const void* b, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i)
        static_cast<float*>(c)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
    });
    gloo::allreduce(options);
  });
}
