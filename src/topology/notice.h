#pragma once
// Notices: datagrams between two processes of a job. One may be lost and one may come twice, so whoever sends a
// notice repeats it until something answers. What has to arrive once and in order is a letter instead: a message on a
// stream.

#include <cstdint>

#include "base/bytes.h"
#include "base/id.h"

namespace r2ccl {

enum class NoticeKind : std::uint8_t {
  kSession = 1,
  kProbeRequest = 2,
  kProbeResult = 3,
  kApplication = 4,
  kObservation = 5,  // what one end saw of a path's death, for the judge at the other end
  kVerdict = 6,
};

class NoticeSender {
 public:
  virtual ~NoticeSender() = default;
  // Best effort. Those of kSession go over the control network, for when no data path can carry them.
  virtual void send_notice(ProcessId to, NoticeKind kind, ByteView bytes) = 0;
};

}  // namespace r2ccl
