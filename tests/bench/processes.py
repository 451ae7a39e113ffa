"""The processes of a run: all are let go at once, and each says when it has ended, what it saw or what it died of.

A generator is a program that prints one JSON line; `main` runs one.
"""

import json
import multiprocessing
import queue
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import SILENCE_SECONDS, BrokerClosed

FORK = multiprocessing.get_context("fork")
RUN_SECONDS = 600
# Linux: a process's clock is named by its pid; this bit asks for the time of all its threads.
CPUCLOCK_SCHED = 2


class LoadFailed(Exception):
    """A publisher or consumer of the run did not reach its end."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Where the processes of a run meet: all say that they are ready, then all are let go."""

    ready: Semaphore
    go: Event

    def pass_through(self) -> float:
        """Wait for the start and return its time."""
        self.ready.release()
        if not self.go.wait(RUN_SECONDS):
            raise LoadFailed("the run never started")
        return time.perf_counter()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long one process took and what it saw on its way, or what it died of."""

    seconds: float
    samples: Sequence[float] = ()
    act: str = ""
    error: str = ""


# One process of a run; it ends with what is asked here.
Act = Callable[[Gate], Outcome]
Job = tuple[str, Act]


def run_together(jobs: Sequence[Job]) -> tuple[float, list[Outcome]]:
    """Run each job in a process, all let go at once; return the seconds until all have ended, and their outcomes."""
    gate = Gate(FORK.Semaphore(0), FORK.Event())
    outcomes: Queue[Outcome] = FORK.Queue()
    processes = [FORK.Process(target=_work, args=(name, act, gate, outcomes)) for name, act in jobs]
    try:
        for process in processes:
            process.start()
        for _ in processes:
            if not gate.ready.acquire(timeout=RUN_SECONDS):
                raise LoadFailed("not all processes could connect")
        started = time.perf_counter()
        gate.go.set()
        ended = [_next_outcome(outcomes) for _ in processes]
        for process in processes:
            process.join()
        return time.perf_counter() - started, ended
    finally:
        for process in processes:
            if process.pid is not None and process.is_alive():
                process.terminate()
                process.join()


def _next_outcome(outcomes: "Queue[Outcome]") -> Outcome:
    try:
        outcome = outcomes.get(timeout=RUN_SECONDS)
    except queue.Empty:
        raise LoadFailed(f"no end after {RUN_SECONDS} s") from None
    if outcome.error:
        raise LoadFailed(f"{outcome.act}: {outcome.error}")
    return outcome


def _work(name: str, act: Act, gate: Gate, outcomes: "Queue[Outcome]") -> None:
    # Ctrl-C is the parent's to answer; it ends its children by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        outcome = replace(act(gate), act=name)
    except Exception as error:
        stuck = isinstance(error, BlockingIOError)
        reason = f"the broker did nothing for {SILENCE_SECONDS} s" if stuck else f"{type(error).__name__}: {error}"
        outcome = Outcome(0.0, act=name, error=reason)
        gate.ready.release()
    outcomes.put(outcome)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far, all its threads together."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED) if pid else 0.0


def per_second(count: float, seconds: float) -> float:
    """Return a rate, precise enough that a difference of a hundredth is seen in a few messages a second too."""
    return float(f"{count / seconds:.5g}")


class ProcessorTime:
    """The processor time of a broker from here on, for each message, connection or whatever a run counts."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = cpu_seconds(pid)

    def figures(self, count: int) -> dict[str, float]:
        if not self._pid:
            return {}
        used = cpu_seconds(self._pid) - self._before
        return {"broker_cpu_us_per_msg": float(f"{used / count * 1e6:.5g}")}


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value that this part of all (0 to 1) do not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def main(run: Callable[[], dict[str, object]]) -> None:
    """Run a generator and print its figures, or in one line what has gone wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(json.dumps(run()))
    except (LoadFailed, BrokerClosed, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
