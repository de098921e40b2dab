#include "plugin/net_comm.h"

namespace r2ccl {

Connection::Connection(Endpoint& endpoint, Side side) : endpoint_(endpoint), side_(side) {
  // NCCL may have so many receives under way, each of several parts, and a send for every part.
  constexpr std::size_t kParts = std::size_t{nccl::kRequestsMax} * kGroupedMax;
  const std::size_t count = side == Side::kSend ? kParts : nccl::kRequestsMax;
  requests_ = std::make_unique<Request[]>(count);
  parts_ = std::make_unique<Request::Part[]>(kParts);
  for (std::size_t i = count; i-- > 0;) {
    requests_[i].connection = this;
    requests_[i].parts = &parts_[i * (kParts / count)];
    give_back(requests_[i]);
  }
}

Request* Connection::take() {
  Request* const request = free_;
  if (request != nullptr) free_ = request->next_free;
  return request;
}

void Connection::give_back(Request& request) {
  request.next_free = free_;
  free_ = &request;
}

}  // namespace r2ccl
