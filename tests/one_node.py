"""A Slurm of one node, from Debian's packages: munged, slurmctld and slurmd as processes of the test's own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from waiting import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")

# partition `urgent` preempts jobs of `normal`; a job that is queued again may start after `cred_expire` seconds
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
MpiDefault=none
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={daemon} \
 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=16000
PartitionName=normal Nodes=one Default=YES PriorityTier=1
PartitionName=urgent Nodes=one PriorityTier=10
"""


def missing() -> str:
    """Why it cannot be started here; "" if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=search()) is None]
    return f"no {', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge" if absent else ""


def search() -> str:
    """PATH with the folders of daemons."""
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


class Slurm:
    """The daemons of one node, and their client programs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.daemons = folder, dict[str, subprocess.Popen[bytes]]()
        for name in ("state", "spool"):
            (folder / name).mkdir()
        ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        controller, daemon = (each.getsockname()[1] for each in ports)
        for each in ports:
            each.close()
        host = socket.gethostname().partition(".")[0]
        conf = CONF.format(folder=folder, host=host, controller=controller, daemon=daemon)
        (folder / "slurm.conf").write_text(conf)
        self.env: Mapping[str, str] = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": search()}
        try:
            self.begin()
        except BaseException:  # no daemon outlives a start that fails
            self.end()
            raise

    def begin(self) -> None:
        """Start the daemons, and wait until the node is idle."""
        folder = self.folder
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        own = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        own.append(f"--socket={folder}/munge.socket")
        self.start("munged", "--foreground", "--force", *own)
        until((folder / "munge.socket").exists)
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", "one")
        until(lambda: "idle" in self.said("sinfo", "--noheader", "--format=%t"))

    def start(self, name: str, *words: str) -> None:
        with open(self.folder / f"{name}.said", "ab") as said:
            env = {**os.environ, **self.env}
            self.daemons[name] = subprocess.Popen([name, *words], env=env, stdout=said, stderr=said)

    def stop(self, name: str) -> None:
        self.daemons[name].terminate()
        self.daemons[name].wait()

    def said(self, *command: str) -> str:
        mine = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        done = subprocess.run(command, env={**mine, **self.env}, capture_output=True, text=True)
        return done.stdout

    def states(self) -> dict[str, str]:
        """Of every job, by its number."""
        lines = self.said("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T").split()
        return {name: state for name, _, state in (line.partition("|") for line in lines)}

    def end(self) -> None:
        """Cancel what runs and stop the daemons."""
        self.said("scancel", "--user=root")
        for _ in range(200):  # a task that does not end is killed with its daemon
            if not {*self.states().values()} & {"RUNNING", "COMPLETING"}:
                break
            time.sleep(0.05)
        for name in reversed(self.daemons):
            self.stop(name)
