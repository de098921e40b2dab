#pragma once
// Memory that processes of one server share: one of them makes it, the others map it by its ticket.
//
// It has no name anyone could guess or leave behind: it is a memfd, opened through the maker's /proc entry, and it goes with the last
// process that maps it. Processes that do not see each other there (containers, other users) can not share; they are told so.
//
// Ownership  The mapping is this object's. The maker keeps the descriptor until seal(), by when all others must have mapped it.
// Failure    kPathDown: this way can not be gone, another one may.
// Threads    None of its own; what the memory holds is its users' business.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace r2ccl {

class Arena final {
 public:
  // Which process holds it under which descriptor, and a number drawn for it: process ids come again.
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

  // At least `bytes`, all zero. Memory is used as it is touched.
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
