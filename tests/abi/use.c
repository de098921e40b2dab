// The headers are C: this compiles as C99 without CUDA, and the initializers initialize.

#include <r2ccl.h>

int main(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  r2cclNicInfo_t nic = R2CCL_NIC_INFO_INITIALIZER;
  r2cclPolicy_t policy = R2CCL_POLICY_INITIALIZER;
  r2cclStats_t stats = R2CCL_STATS_INITIALIZER;
  int version = 0;
  if (config.size != sizeof(config) || info.size != sizeof(info) || nic.size != sizeof(nic)) return 1;
  if (policy.size != sizeof(policy) || stats.size != sizeof(stats)) return 2;
  if (ncclGetVersion(&version) != ncclSuccess || version != NCCL_VERSION_CODE) return 3;
  if (pncclGetVersion(NULL) != ncclInvalidArgument) return 4;
  if (r2cclGetVersion(&version) != ncclSuccess || version != R2CCL_VERSION_CODE) return 5;
  if (r2cclGetVersion(NULL) != ncclInvalidArgument) return 6;
  return ncclGetErrorString(ncclRemoteError)[0] == 0 || ncclGetLastError(NULL)[0] == 0;
}
