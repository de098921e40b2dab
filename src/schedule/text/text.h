#pragma once
// Schedules as text: stable, diffable, and parse(print(s)) == s. One line per step; what has its default value is left
// out.
//
//   all_reduce weighted_direct ranks=4 slots=3        collective, algorithm; per_server= root= slots= scratch=
//   pieces 100 300 300 300 / 1000 segments=64         shares of the data; or `pieces 4 equal`; `inside`: Layout::Order
//   span 4 = 0..3                                     names a run of pieces
//   shares servers=4 rails=2                          RailShares, zero except where a line says more:
//   share 0 1..3 = 4096 0                             servers 0 and 1, 0 and 2, 0 and 3, both directions; by rail
//   nics 0..3 = 0 1                                   nic_of_rail of servers 0 to 3
//   rank 0                                            every rank, in order
//     lane out outer=66 inner=3 rail=0
//       send to=(1+i)%4 ch_out=1 span=(1+i)%4 seg=o-2 src=input when o>=2 o<64 (o)%2==1 wait in.0@o-2
//       once recv from=3 ch_in=1 span=0 seg=o dst=scratch[(o)%3]
//
// o and i are the outer and inner loop variables; a step marked `once` stands before or after the inner loop. An index
// is a sum such as 3, o-2 or 2+o-3i, or (sum)%modulo*scale+offset with any of the three left out. A wait names lane (by
// number where its name is not unique) and step; `@o-2` waits for all inner iterations of outer iteration o-2, `@o-2,i`
// for the inner iteration i of it. `#` begins a comment; blanks separate words and mean nothing else.
//
// Names of algorithms and lanes consist of letters, digits, '_', '.' and '-'; print() writes other characters as '_'.
// Nor survives what has no meaning in the structures: a first_source without has_first, an inner_offset without
// one_inner, rail shares that are not symmetric, dimensions of shares that are not there.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "schedule/schedule.h"

namespace r2ccl {

std::string print(const Schedule& schedule);

// kMisuse with the line number and one sentence. Never trusts its input: numbers are bounded, and memory grows with the
// text, but for the tables of pieces, shares and NICs, which the limits below keep within some 20 MiB. Takes time
// linear in the text. What it accepts has a layout and tables that are safe to use; whether the steps make sense is
// check()'s question.
Result<Schedule> parse_schedule(std::string_view text);

inline constexpr std::size_t kScheduleLineBytesMax = 1 << 22;
inline constexpr std::uint32_t kScheduleRanksMax = 1 << 16;
inline constexpr std::uint32_t kSchedulePiecesMax = 1 << 17;
inline constexpr std::uint32_t kScheduleSegmentsMax = 1 << 20;
inline constexpr std::uint32_t kScheduleRailsMax = 64;
inline constexpr std::uint32_t kScheduleSharesMax = 1 << 23;  // servers x servers x rails
inline constexpr std::size_t kScheduleStepsMax = 1 << 23;     // of all lanes of all ranks

}  // namespace r2ccl
