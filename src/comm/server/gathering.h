#pragma once
// How the ranks of a communicator come together: rank 0 hears of everybody, and those of one server come to share
// memory.
//
//   rank 0                      the others
//          ◀── kHere ──         joined; with the memory it made, where it leads its server
//          ── kGo ──▶           all have; with all that was made. The end, where every server has one rank
//          ◀── kMapped ──       what this rank can do with its server's
//          ── kStart ──▶        what all of a server can
//
// Role       A state machine without I/O but for the memory itself: letters in, letters out
//            (call_notice.h).
// Threads    The communicator's.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "comm/call_notice.h"
#include "comm/server/neighbours.h"

namespace r2ccl {

class Gathering final {
 public:
  struct Out {
    std::uint32_t to = 0;  // rank
    Bytes bytes;
  };

  // `share`: whether this rank wants to share memory. `nonce`: a number nobody else draws.
  Gathering(const std::vector<ProcessInfo>& members, std::uint32_t rank, bool share, std::uint64_t nonce);

  std::size_t letter_bytes_max() const { return 1 + neighbours_.tickets_bytes(); }
  // Takes a letter of one of the four kinds above. False: it can not be read, or has no place here.
  bool on_letter(std::uint32_t from, Letter kind, ByteView content);
  std::vector<Out> take_out();
  bool over() const { return over_; }

  Neighbours& neighbours() { return neighbours_; }
  const std::string& why_not_shared() const { return why_not_; }  // for people; empty: it is, or there is no need

 private:
  template <class Put>
  static Bytes letter(Letter kind, Put&& put);
  void post_all(const Bytes& bytes);
  void all_here();
  void all_mapped();
  void on_go(ByteView content);
  void on_start(ByteView content);

  const std::uint32_t rank_;
  const std::uint32_t size_;
  const bool share_;
  Neighbours neighbours_;
  std::vector<Out> out_;
  std::uint32_t missing_;  // rank 0: ranks whose kHere, then whose kMapped, has not come
  bool over_ = false;
  std::string why_not_;
};

}  // namespace r2ccl
