"""`leveret` on asyncio's own loop, with every long turn of it written down: how much processor time it took, in ms.

A turn is what the loop does between two looks at its sockets; nobody else is heard meanwhile. The processor time of the
loop's own thread does not depend on what else the machine does.

  timed_leveret.py TURNS FLAGS…     TURNS is the file to which turns of more than LONG_MS are appended, one a line
"""

import asyncio
import selectors
import sys
import time
from pathlib import Path

from leveret.cli import serve
from leveret.cli.main import main

LONG_MS = 5.0


class TimedSelector(selectors.DefaultSelector):
    """Takes the time from what it has returned until it is asked again."""

    def __init__(self, turns: Path) -> None:
        super().__init__()
        self._turns = turns.open("a", buffering=1)
        self._woke_at = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        took_ms = (time.thread_time() - self._woke_at) * 1000
        if took_ms > LONG_MS:
            self._turns.write(f"{took_ms:.1f}\n")
        found = super().select(timeout)
        self._woke_at = time.thread_time()
        return found


def timed() -> None:
    turns = Path(sys.argv.pop(1))

    def run(program: object) -> None:
        loop_factory = lambda: asyncio.SelectorEventLoop(TimedSelector(turns))  # noqa: E731
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(program)  # type: ignore[arg-type]

    serve.event_loop = lambda: run
    main(prog_name="leveret")


if __name__ == "__main__":
    timed()
