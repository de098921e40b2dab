#include "transport/tcp/netlink_carrier.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cstring>
#include <thread>

namespace r2ccl {
namespace {

std::vector<Nic> nics_with(std::string name) {
  return {{.id = {0}, .name = std::move(name), .address = Address::v4(10, 0, 0, 1)},
          {.id = {1}, .name = "127.0.0.2", .address = Address::v4(127, 0, 0, 2)}};
}

TEST(CarrierBook, TellsChangesOnceAndStartsUp) {
  CarrierBook book(nics_with("eth0"));
  book.on_link("eth0", true);
  EXPECT_FALSE(book.next_event());
  book.on_link("eth0", false);
  book.on_link("eth0", false);
  const auto event = book.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->nic, NicId{0});
  EXPECT_FALSE(event->up);
  EXPECT_FALSE(book.next_event());
  book.on_link("eth0", true);
  EXPECT_TRUE(book.next_event()->up);
}

TEST(CarrierBook, LostAddressIsDownEvenWithCarrier) {
  CarrierBook book(nics_with("eth0"));
  book.on_address(Address::v4(10, 0, 0, 1), false);
  EXPECT_FALSE(book.next_event()->up);
  book.on_link("eth0", true);
  EXPECT_FALSE(book.next_event());
  book.on_address(Address::v4(10, 0, 0, 1), true);
  EXPECT_TRUE(book.next_event()->up);
}

TEST(CarrierBook, OtherInterfacesAndLoopbackDoNotMatter) {
  CarrierBook book(nics_with("eth0"));
  book.on_link("eth1", false);
  book.on_link("127.0.0.2", false);
  book.on_address(Address::v4(127, 0, 0, 2), false);
  EXPECT_FALSE(book.next_event());
  EXPECT_FALSE(book.empty());
  const std::vector<Nic> nics = nics_with("eth0");
  EXPECT_TRUE(CarrierBook(std::span(nics).last(1)).empty());
}

TEST(CarrierBook, EventsNobodyFetchesAreBounded) {
  CarrierBook book(nics_with("eth0"));
  for (std::size_t i = 0; i < 2 * CarrierBook::kEventsMax; ++i) book.on_link("eth0", i % 2 == 1);
  std::size_t count = 0;
  while (book.next_event()) ++count;
  EXPECT_EQ(count, CarrierBook::kEventsMax);
}

bool set_interface(const char* name, bool up) {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
  return ::ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

std::optional<NicEvent> wait_for_event(Poller& poller, NetlinkCarrier& carrier) {
  for (int i = 0; i < 1000; ++i) {
    poller.dispatch();
    carrier.step();
    if (auto event = carrier.next_event()) return event;
    poller.wait({}, Instant{} + 5ms);
  }
  return std::nullopt;
}

// In a network namespace of its own (one thread's), whose loopback interface plays the NIC.
TEST(NetlinkCarrier, RealInterfaceGoingDownAndUpIsReported) {
  bool allowed = true;
  std::vector<bool> seen;
  std::thread isolated([&] {
    allowed = ::unshare(CLONE_NEWNET) == 0 && set_interface("lo", true);
    if (!allowed) return;
    Poller poller;
    allowed = poller.open().has_value();
    NetlinkCarrier carrier(poller, nics_with("lo"));
    if (!carrier.status().empty()) return;
    for (const bool up : {false, true, false}) {
      set_interface("lo", up);
      if (const auto event = wait_for_event(poller, carrier)) seen.push_back(event->up);
    }
  });
  isolated.join();
  if (!allowed) GTEST_SKIP() << "needs the right to make a network namespace";
  EXPECT_EQ(seen, (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace r2ccl
