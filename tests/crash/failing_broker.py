"""`leveret` on a disk that fails when it is told to: the file named by FAULTS says what, and with which number.

Each line is `what errno`, where `what` is one of write, sync, create, remove, sync_folder. A write that fails has written
half. What root may do beyond others is given up: otherwise no folder would be read-only to it.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leveret.cli.main import main
from leveret.store.disk import Disk, File

FAULTS = Path(os.environ["FAULTS"])
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def give_up_override() -> None:
    """Start again as one who may write only where the modes allow it."""
    if os.geteuid() == 0 and "GIVEN_UP" not in os.environ:
        os.environ["GIVEN_UP"] = "yes"
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def fault(what: str) -> OSError | None:
    """What is to be raised now, if anything."""
    if not FAULTS.exists():
        return None
    for line in FAULTS.read_text().splitlines():
        name, number = line.split()
        if name == what:
            return OSError(int(number), os.strerror(int(number)))
    return None


def failing(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        found = fault(what)
        if found is not None:
            if what == "write":
                real(self, bytes(arguments[0])[: len(arguments[0]) // 2])
            raise found
        return real(self, *arguments)

    return method


for kind, names in ((File, ("write", "sync")), (Disk, ("create", "remove", "sync_folder"))):
    for name in names:
        setattr(kind, name, failing(name, getattr(kind, name)))

give_up_override()
main()
