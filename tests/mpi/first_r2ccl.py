#!/usr/bin/env python3
"""Runs the commands of the first R2CCL's page as they stand there, on two hosts called A and B, which are network
namespaces of this machine (r2ccl lab).

  first_r2ccl.py TOOL LIBRARY INCLUDE [LARGEST]

Builds all_reduce_perf.c with mpicc and runs it under mpirun for R2CC_MODE unset and 0 to 3. That is the only variable
of our own that is set; what a cluster's administrator would have set for Open MPI and NCCL (which interfaces, slots)
is in the environment. Without Open MPI or root it says so and ends with 77, so the test is skipped.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE = "mpirun {mode} -np 4 -host A,B ./build/all_reduce_perf -b 8K -e {most} -f 2 -t 1 -g 1"
# Per mode: the NICs that carry nothing at each of A's two ranks, and the last plan. B's second NIC may carry nothing
# either while its only partner is lost. r2 needs three servers: with two, plans are those of auto.
WANTED = {"": ("", None), "0": ("", "ring for map 0"), "1": ("eth1", "ring for map 0"),
          "2": ("eth1", "balance for map 1"), "3": ("eth1", "weighted_direct for map 1")}
SETTINGS = {"NCCL_SOCKET_IFNAME": "eth", "OMPI_MCA_oob_tcp_if_include": "mgmt0", "OMPI_MCA_btl_tcp_if_include": "mgmt0",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def leave_out(why):
    print(f"left out: {why}")
    sys.exit(77)


def write_agent(path, tool, lab):
    """What mpirun takes for ssh: `agent HOST COMMAND` runs the command there, under the host's name and without the
    variables that a lab sets for our library."""
    inner = shlex.quote("hostname $0; unset $(env | sed -n 's/^\\(R2CCL_[A-Z_]*\\)=.*/\\1/p'); eval \"$*\"")
    path.write_text(f"""#!/bin/sh
host=$1; shift
case $host in A) server=0 ;; B) server=1 ;; *) exit 255 ;; esac
exec {tool} lab exec --name {lab} --server $server -- unshare --uts sh -c {inner} $host "$@"
""")
    path.chmod(0o755)


def run_mode(agent, folder, mode, most):
    """What is wrong with it, as a list of sentences."""
    line = PAGE.format(mode=f"-x R2CC_MODE={mode}" if mode else "", most=most)
    ran = subprocess.run([str(agent), "A", f"cd {folder} && {line}"], env=dict(os.environ, **SETTINGS),
                         capture_output=True, text=True, timeout=300)
    lost = re.findall(r"^# rank \d+ lost: ?(.*)$", ran.stdout, re.M)
    plan = re.findall(r"^# plan: (.*)$", ran.stdout, re.M)
    said = ran.stderr.count("R2CC_MODE=")
    wanted, wanted_plan = WANTED[mode]
    bad = []
    if ran.returncode != 0 or "# Out of bounds values : 0 OK" not in ran.stdout:
        bad.append(f"it ended with {ran.returncode}")
    if lost[:2] != [wanted] * 2 or any(other not in ("", wanted) for other in lost[2:]) or len(lost) != 4:
        bad.append(f"NICs lost by rank: {lost}, at A not '{wanted}'")
    if wanted_plan and plan != [wanted_plan]:
        bad.append(f"the last plan was {plan}, not {wanted_plan}")
    if said != (1 if mode in ("1", "2", "3") else 0):
        bad.append(f"the log tells {said} times of it")
    print(f"$ {line}\n{ran.stdout}{ran.stderr}" + "".join(f"WRONG: {one}\n" for one in bad), flush=True)
    return bad


def main():
    tool, library, include = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:4])
    most = sys.argv[4] if len(sys.argv) > 4 else "1M"
    if not shutil.which("mpirun") or not shutil.which("mpicc"):
        leave_out("mpirun and mpicc (openmpi-bin, libopenmpi-dev) are not installed")
    if os.geteuid() != 0:
        leave_out("network namespaces need root")
    lab, bad = f"mpi-{os.getpid()}", []
    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder) / "build"
        built.mkdir()
        subprocess.run(["mpicc", "-O1", "-Wall", "-I", include, "-o", str(built / "all_reduce_perf"),
                        str(HERE / "all_reduce_perf.c"), library, f"-Wl,-rpath,{pathlib.Path(library).parent}"],
                       check=True)
        agent = pathlib.Path(folder) / "agent"
        write_agent(agent, tool, lab)
        SETTINGS["OMPI_MCA_plm_rsh_agent"] = str(agent)
        subprocess.run([tool, "lab", "up", "--name", lab, "--servers", "2", "--nics", "3", "--rate", "500mbit"],
                       check=True)
        try:
            for mode in WANTED:
                bad += run_mode(agent, folder, mode, most)
        finally:
            subprocess.run([tool, "lab", "down", "--name", lab], check=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
