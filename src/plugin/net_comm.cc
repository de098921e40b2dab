#include "plugin/net_comm.h"

namespace r2ccl::plugin {

NetComm::NetComm(Endpoint& endpoint, Side side) : endpoint_(endpoint), side_(side) {
  // NCCL may have so many receives under way, each of several parts, and a send for every part.
  constexpr std::size_t kParts = std::size_t{nccl::kRequestsMax} * kGroupedMax;
  const std::size_t count = side == Side::kSend ? kParts : nccl::kRequestsMax;
  requests_ = std::make_unique<NetRequest[]>(count);
  parts_ = std::make_unique<NetRequest::Part[]>(kParts);
  for (std::size_t i = count; i-- > 0;) {
    requests_[i].connection = this;
    requests_[i].parts = &parts_[i * (kParts / count)];
    give_back(requests_[i]);
  }
}

NetRequest* NetComm::take() {
  NetRequest* const request = free_;
  if (request != nullptr) free_ = request->next_free;
  return request;
}

void NetComm::give_back(NetRequest& request) {
  request.next_free = free_;
  free_ = &request;
}

}  // namespace r2ccl::plugin
