#include "tests/loopback/support/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <future>
#include <stdexcept>
#include <thread>

namespace r2ccl::loopback {

Settings settings_of(const RanksPlan& plan, std::uint32_t rank) {
  const std::uint32_t server = rank / plan.per_server;
  std::vector<std::string> addresses;
  for (std::uint32_t nic = 0; nic < plan.nics; ++nic)
    addresses.push_back(fmt::format("127.{}.0.{}", 10 + nic, 1 + server));
  std::vector<std::string> text = plan.settings;
  text.push_back(fmt::format("R2CCL_NICS={}", fmt::join(addresses, ",")));
  text.push_back(fmt::format("R2CCL_SERVER={}", server));
  if (!plan.faults.empty()) text.push_back(fmt::format("R2CCL_FAULT={}", fmt::join(plan.faults, ";")));
  const std::vector<std::string_view> views(text.begin(), text.end());
  auto settings = Settings::parse(views);
  if (!settings) throw std::runtime_error(settings.error().what);
  return *settings;
}

void run_ranks(const RanksPlan& plan, const std::function<void(Comm&, World&)>& body, bool finalize) {
  std::promise<UniqueId> id;
  const std::shared_future<UniqueId> known(id.get_future());
  std::vector<std::exception_ptr> failures(plan.ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto made = make_world(settings_of(plan, rank));
        World& world = *made;
        if (rank == 0) id.set_value(world.make_id().value());
        auto comm = world.join(known.get(), rank, plan.ranks, plan.config).value();
        if (const Status joined = comm->wait_joined(); !joined) throw std::runtime_error(joined.error().what);
        body(*comm, world);
        if (!finalize) return;
        if (const Status ended = comm->finalize(); !ended) throw std::runtime_error(ended.error().what);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace r2ccl::loopback
