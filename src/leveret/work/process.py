"""One run of a command: stdin is written, the end of stderr is kept, until the command exits or its time is over.

(1) It has a process group of its own, which is killed when the command has exited or its time is over.
(2) However much it writes to stderr, only the last `STDERR_MAX` bytes are kept. It need not read its stdin.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

STDERR_MAX = 1000
PIECE = 1 << 16
# For systems on which a process cannot be waited for together with its pipes.
POLL_S = 0.02


class Process:
    """A running command; raises OSError if it cannot be started."""

    def __init__(self, words: Sequence[str], body: bytes, variables: Mapping[str, str]) -> None:
        self._popen = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **variables},
            start_new_session=True,
            bufsize=0,
        )
        self._unwritten = memoryview(body)
        self._stderr_end = b""

    def run(self, time_limit_s: float) -> tuple[int | None, str]:
        """Its exit status and the end of its stderr; the status is None if it took too long."""
        ended = False
        try:
            ended = self._communicate(time.monotonic() + time_limit_s)
        finally:
            self.kill()
            status = self._popen.wait()
            for pipe in (self._popen.stdin, self._popen.stderr):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        return status if ended else None, self._stderr_end.decode(errors="replace").strip()

    def kill(self) -> None:
        """Kill the process group. Its id cannot be another's before the command is waited for."""
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def _communicate(self, deadline: float) -> bool:
        """Write stdin and read stderr until it exits; False if that takes too long."""
        stdin, stderr = self._popen.stdin, self._popen.stderr
        assert stdin is not None
        assert stderr is not None
        with selectors.DefaultSelector() as selector, _ExitWatch(self._popen.pid) as watch:
            for pipe in (stdin, stderr):
                os.set_blocking(pipe.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stderr, selectors.EVENT_READ)
            if watch.descriptor is not None:
                selector.register(watch.descriptor, selectors.EVENT_READ)
            while not watch.exited():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for key, _ in selector.select(left_s if watch.descriptor is not None else min(left_s, POLL_S)):
                    if key.fileobj is stdin and not self._write(stdin):
                        selector.unregister(stdin)
                        stdin.close()
                    elif key.fileobj is stderr and not self._read(stderr):
                        selector.unregister(stderr)
        # What it wrote just before it exited.
        while self._read(stderr) and time.monotonic() < deadline:
            pass
        return True

    def _write(self, stdin: IO[bytes]) -> bool:
        """Write some of the body; whether there is more to write, and the command still reads."""
        try:
            self._unwritten = self._unwritten[os.write(stdin.fileno(), self._unwritten[:PIECE]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return len(self._unwritten) > 0

    def _read(self, stderr: IO[bytes]) -> bool:
        """Read some of stderr; whether there was any."""
        try:
            piece = os.read(stderr.fileno(), PIECE)
        except OSError:
            return False
        self._stderr_end = (self._stderr_end + piece)[-STDERR_MAX:]
        return bool(piece)


class _ExitWatch:
    """Whether a child has exited, without waiting for it: it must keep its id. `descriptor` is readable then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.descriptor: int | None = None
        with suppress(AttributeError, OSError):  # not on every system
            self.descriptor = os.pidfd_open(pid)

    def __enter__(self) -> "_ExitWatch":
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def exited(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
