#pragma once
// Memory that processes of one server share: one of them makes it, the others map it by its ticket.
//
// It has no name that anyone could guess or leave behind: it is a memfd, which the others open through the maker's
// /proc entry, and it goes with the last process that maps it. Processes that do not see each other in /proc
// (containers, other users) can not share memory this way, and map() says so.
//
// Ownership  The mapping is this object's. The maker keeps the descriptor until seal(); all others must have mapped
//            the memory by then.
// Failure    kPathDown: these processes can not share memory and have to send messages instead.
// Threads    Starts none and synchronises nothing; the users of the memory agree on that themselves.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace r2ccl {

class Arena final {
 public:
  // Which process holds the memory under which descriptor. The nonce is drawn at random and stands in the memory too,
  // because the system uses process ids again.
  struct Ticket {
    static constexpr std::size_t kWireSize = 24;
    std::uint32_t process = 0;
    std::uint32_t descriptor = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nonce = 0;

    bool valid() const { return process != 0; }
    void put(Writer& out) const;
    static Ticket get(Reader& in);
    friend bool operator==(const Ticket&, const Ticket&) = default;
  };

  // Makes at least `bytes`, all zero. The system spends memory on a page only when it is touched.
  static Result<Arena> make(std::size_t bytes, std::uint64_t nonce);
  static Result<Arena> map(const Ticket& ticket);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  static std::uint32_t this_process();  // as tickets name it
  std::byte* data() const;              // aligned to a page
  const Ticket& ticket() const { return ticket_; }
  void seal() { file_.reset(); }  // nobody maps it any more

 private:
  Arena(std::byte* memory, Fd file, const Ticket& ticket) : memory_(memory), file_(std::move(file)), ticket_(ticket) {}

  std::byte* memory_;
  Fd file_;  // none: not the maker's, or sealed
  Ticket ticket_;
};

}  // namespace r2ccl
