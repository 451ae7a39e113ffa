"""One run of a command: its stdin is fed, the end of its stderr is kept, until it ends or its time is over.

(1) It has a process group of its own, and everything that is left of the group ends with it.
(2) However much it writes, only the last `SAID_MAX` bytes are kept; a body that it does not read is no failure.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

SAID_MAX = 1000
PIECE = 1 << 16
# Where a process cannot be waited for beside its pipes.
LOOK_S = 0.02


class Process:
    """A command at work; `Popen` raises OSError if it cannot be started."""

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
        self._left = memoryview(body)
        self._said = b""

    def run(self, time_limit_s: float) -> tuple[int | None, str]:
        """Its exit status and what it said last; the status is None if it took too long."""
        ended = False
        try:
            ended = self._attend(time.monotonic() + time_limit_s)
        finally:
            self.kill()
            status = self._popen.wait()
            for pipe in (self._popen.stdin, self._popen.stderr):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        return status if ended else None, self._said.decode(errors="replace").strip()

    def kill(self) -> None:
        """End all of the group. Its number is not given to others before the command is waited for."""
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def _attend(self, deadline: float) -> bool:
        """Feed and listen until it ends; False if that takes too long."""
        stdin, stderr = self._popen.stdin, self._popen.stderr
        assert stdin is not None
        assert stderr is not None
        with selectors.DefaultSelector() as selector, _Ended(self._popen.pid) as end:
            for pipe in (stdin, stderr):
                os.set_blocking(pipe.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stderr, selectors.EVENT_READ)
            if end.descriptor is not None:
                selector.register(end.descriptor, selectors.EVENT_READ)
            while not end.come():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for key, _ in selector.select(left_s if end.descriptor is not None else min(left_s, LOOK_S)):
                    if key.fileobj is stdin and not self._feed(stdin):
                        selector.unregister(stdin)
                        stdin.close()
                    elif key.fileobj is stderr and not self._listen(stderr):
                        selector.unregister(stderr)
        # What it said just before it ended.
        while self._listen(stderr) and time.monotonic() < deadline:
            pass
        return True

    def _feed(self, stdin: IO[bytes]) -> bool:
        """Whether there is more to feed, and somebody who reads it."""
        try:
            self._left = self._left[os.write(stdin.fileno(), self._left[:PIECE]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return len(self._left) > 0

    def _listen(self, stderr: IO[bytes]) -> bool:
        """Whether something was said."""
        try:
            piece = os.read(stderr.fileno(), PIECE)
        except OSError:
            return False
        self._said = (self._said + piece)[-SAID_MAX:]
        return bool(piece)


class _Ended:
    """Whether a child has ended, without waiting for it: it must keep its number. `descriptor` is readable then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.descriptor: int | None = None
        with suppress(AttributeError, OSError):  # not everywhere
            self.descriptor = os.pidfd_open(pid)

    def __enter__(self) -> "_Ended":
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def come(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
