"""Clear what a killed run left in DVC's table of readers and writers, and only what is provably stale.

DVC's other lock is released by the operating system when its holder dies, and DVC itself drops entries
whose process is gone. Left over are entries whose process number was given to another process since, and a
table cut short by the kill.
"""

import json
from pathlib import Path

import psutil
import zc.lockfile


def clear_stale(folder: Path) -> None:
    """Clear stale entries of `folder`/rwlock; leave a table that another process edits just now."""
    table = folder / "rwlock"
    if not table.exists():
        return
    try:
        guard = zc.lockfile.LockFile(str(folder / "rwlock.lock"))  # DVC's own guard of the table
    except zc.lockfile.LockError:
        return
    try:
        written = table.stat().st_mtime
        try:
            entries = json.loads(table.read_text(encoding="utf-8"))
        except ValueError:
            table.unlink()  # who wrote it holds the guard until it is whole: he is dead
            return
        alive = {
            "write": {
                path: who for path, who in entries.get("write", {}).items() if _alive(who["pid"], written)
            },
            "read": {
                path: kept
                for path, readers in entries.get("read", {}).items()
                if (kept := [who for who in readers if _alive(who["pid"], written)])
            },
        }
        table.write_text(json.dumps(alive), encoding="utf-8")
    finally:
        guard.close()


def _alive(pid: int, written: float) -> bool:
    """Whether `pid` can be the process that wrote itself into a table last changed at `written`."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= written
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
