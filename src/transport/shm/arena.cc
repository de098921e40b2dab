#include "transport/shm/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace r2ccl {
namespace {

constexpr std::size_t kPage = 4096;  // the first one holds the nonce; users get what follows

std::unexpected<Error> failed(const std::string& what) {
  return fail(Fault::kPathDown, fmt::format("Shared memory {}: {}.", what, std::generic_category().message(errno)));
}

std::byte* map_whole(int descriptor, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

void Arena::Ticket::put(Writer& out) const {
  out.put(process);
  out.put(descriptor);
  out.put(bytes);
  out.put(nonce);
}

Arena::Ticket Arena::Ticket::get(Reader& in) {
  Ticket ticket;
  ticket.process = in.get<std::uint32_t>();
  ticket.descriptor = in.get<std::uint32_t>();
  ticket.bytes = in.get<std::uint64_t>();
  ticket.nonce = in.get<std::uint64_t>();
  return ticket;
}

Result<Arena> Arena::make(std::size_t bytes, std::uint64_t nonce) {
  Fd file(::memfd_create("r2ccl", MFD_CLOEXEC));
  if (!file) return failed("can not be made");
  if (::ftruncate(file.get(), static_cast<off_t>(bytes + kPage)) != 0) return failed("can not grow");
  std::byte* const memory = map_whole(file.get(), bytes);
  if (memory == nullptr) return failed("can not be mapped");
  std::memcpy(memory, &nonce, sizeof nonce);
  const Ticket ticket{this_process(), static_cast<std::uint32_t>(file.get()), bytes, nonce};
  return Arena(memory, std::move(file), ticket);
}

Result<Arena> Arena::map(const Ticket& ticket) {
  const std::string path = fmt::format("/proc/{}/fd/{}", ticket.process, ticket.descriptor);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return failed(fmt::format("of process {} can not be opened", ticket.process));
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return failed("can not be looked at");
  const bool fits = S_ISREG(about.st_mode) && ticket.bytes < SIZE_MAX / 4 &&
                    static_cast<std::uint64_t>(about.st_size) == ticket.bytes + kPage;
  if (!fits) return fail(Fault::kPathDown, fmt::format("{} is not the shared memory that was offered.", path));
  std::byte* const memory = map_whole(file.get(), ticket.bytes);
  if (memory == nullptr) return failed("can not be mapped");
  Arena arena(memory, Fd(), ticket);
  if (std::memcmp(memory, &ticket.nonce, sizeof ticket.nonce) != 0)
    return fail(Fault::kPathDown, fmt::format("{} is not the shared memory that was offered.", path));
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), file_(std::move(other.file_)), ticket_(other.ticket_) {}

Arena::~Arena() {
  if (memory_ != nullptr) ::munmap(memory_, ticket_.bytes + kPage);
}

std::uint32_t Arena::this_process() {
  return static_cast<std::uint32_t>(::getpid());
}

std::byte* Arena::data() const {
  return memory_ + kPage;
}

}  // namespace r2ccl
