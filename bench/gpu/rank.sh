#!/bin/bash
# One rank of a job that plays several servers on one GPU:  rank.sh socket|r2ccl PLUGIN_DIR NICS COMMAND...
# NCCL takes ranks with different host ids for different servers, so all their traffic goes through the network. Each rank has loopback
# addresses of its own as NICs. R2CCL_FAULT is taken as it is; server numbers are ranks.
set -eu
transport=$1 plugin=$2 nics=$3
shift 3
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}
export NCCL_HOSTID="gpu-bench-$rank" NCCL_TESTS_DEVICE=0 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
if [ "$transport" = r2ccl ]; then
  list=
  for ((nic = 0; nic < nics; nic++)); do list+="${list:+,}127.$((20 + nic)).0.$((rank + 1))"; done
  export R2CCL_NICS=${R2CCL_NICS:-$list} R2CCL_SERVER=$rank NCCL_NET_PLUGIN=r2ccl NCCL_NET=R2CCL
  export LD_LIBRARY_PATH="$plugin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
else
  export NCCL_NET_PLUGIN=none NCCL_NET=Socket
  unset R2CCL_FAULT
fi
exec "$@"
