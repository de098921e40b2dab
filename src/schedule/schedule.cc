#include "schedule/schedule.h"

#include "base/assert.h"

namespace r2ccl {

std::string_view to_text(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kAllToAll:
      return "all_to_all";
  }
  R2CCL_ASSERT(false, "a collective without a name");
}

std::string_view to_text(StepKind kind) {
  switch (kind) {
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "recv";
    case StepKind::kCopy:
      return "copy";
    case StepKind::kReduce:
      return "reduce";
    case StepKind::kRecvReduce:
      return "recv_reduce";
    case StepKind::kRecvCopySend:
      return "recv_copy_send";
    case StepKind::kRecvReduceSend:
      return "recv_reduce_send";
    case StepKind::kRecvReduceCopySend:
      return "recv_reduce_copy_send";
  }
  R2CCL_ASSERT(false, "a step without a name");
}

}  // namespace r2ccl
