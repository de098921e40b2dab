#!/bin/bash
# One rank of a job inside a lab, all on one GPU:  lab_rank.sh socket|r2ccl PLUGIN_DIR COMMAND...
# `r2ccl lab run` has said which rank it is and which NICs there are. What only brings ranks together uses the management network.
set -eu
transport=$1 plugin=$2
shift 2
unset NCCL_COMM_ID
export NCCL_HOSTID="gpu-lab-$RANK" MASTER_ADDR=10.250.0.1
if [ "$transport" = r2ccl ]; then
  export NCCL_NET_PLUGIN=r2ccl NCCL_NET=R2CCL NCCL_SOCKET_IFNAME=mgmt0
  export LD_LIBRARY_PATH="$plugin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
else
  export NCCL_NET_PLUGIN=none NCCL_NET=Socket NCCL_SOCKET_IFNAME=eth
fi
exec "$@"
