"""Celery, with real worker processes, against the broker.

The workers talk to each other as they do in production: mingle, gossip and remote control are on where a test does not say
otherwise. Each `Jobs` has names of its own in the broker, so that several can share it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from celery import chain, chord, group
from celery.exceptions import MaxRetriesExceededError, TaskRevokedError
from pika import spec

if TYPE_CHECKING:
    from tests.interop.conftest import Broker

# Imported so because kombu claims to be typed and is not.
pools: Any = import_module("kombu.pools")
Eventually = Callable[[Callable[[], object]], None]
PATIENCE = 60
ALONE = ("--pool", "solo", "--without-mingle", "--without-gossip")

MODULE = """
import os
import time
from functools import partial
from pathlib import Path

from celery import Celery

NAME = os.environ["JOBS_NAME"]
DIARY = Path(__file__).with_name("diary")

app = Celery("jobs", broker=os.environ["JOBS_BROKER"], backend=os.environ["JOBS_BACKEND"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    control_exchange=NAME,
    event_exchange=f"{NAME}.events",
    result_chord_retry_interval=0.1,
    # x-expires of queues for results; workers, too, declare some and never consume from them.
    result_expires=30,
    task_default_exchange=NAME,
    task_default_queue=NAME,
    task_default_queue_type=os.environ["JOBS_QUEUE_TYPE"],
    task_default_routing_key=NAME,
    worker_prefetch_multiplier=1,
)
if "JOBS_MAX_PRIORITY" in os.environ:
    app.conf.task_queue_max_priority = int(os.environ["JOBS_MAX_PRIORITY"])
# Else every application of the process has it too.
task = partial(app.task, shared=False)


@task
def add(a, b):
    return a + b


@task
def total(numbers):
    return sum(numbers)


@task
def fail():
    raise LookupError("nothing there")


@task(bind=True, autoretry_for=(ZeroDivisionError,), retry_backoff=True, retry_backoff_max=1, retry_jitter=False)
def divide_at_last(self, a, b):
    return a / (0 if self.request.retries < 2 else b)


@task(bind=True, max_retries=3)
def retry_by_hand(self, times):
    if self.request.retries < times:
        raise self.retry(countdown=0.1)
    return self.request.retries


@task
def now():
    return time.time()


@task
def note(text):
    with DIARY.open("a") as diary:
        diary.write(text + "\\n")


@task(bind=True, acks_late=True)
def hang_unless_redelivered(self):
    note(f"{os.getpid()}")
    if not self.request.delivery_info["redelivered"]:
        time.sleep(600)
    return "done by another"
"""


@dataclass
class Worker:
    """A worker process and what it logs."""

    process: subprocess.Popen[bytes]
    log: Path

    def logged(self, text: str) -> bool:
        assert self.process.poll() is None, f"the worker has ended:\n{self.log.read_text()}"
        return text in self.log.read_text()


class Jobs:
    """An application: its module in a folder, names in the broker, and workers."""

    def __init__(self, broker: Broker, folder: Path, **settings: str) -> None:
        self.broker = broker
        self.folder = folder
        self.name = f"interop-{uuid.uuid4()}"
        self.settings = {"JOBS_BACKEND": "rpc://", "JOBS_QUEUE_TYPE": "classic", **settings}
        self.settings |= {"JOBS_NAME": self.name, "JOBS_BROKER": broker.url.replace("amqp:", "pyamqp:")}
        (folder / "jobs.py").write_text(MODULE)
        self.tasks = self._load()
        self.app: Any = self.tasks.app

    def _load(self) -> Any:
        """Import the module as the workers do, with the same settings."""
        found = spec_from_file_location("jobs", self.folder / "jobs.py")
        assert found is not None
        assert found.loader is not None
        module = module_from_spec(found)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.settings.items():
                patch.setenv(name, value)
            found.loader.exec_module(module)
        return module

    @contextmanager
    def worker(self, eventually: Eventually, node: str, *options: str) -> Iterator[Worker]:
        """Run a worker, from its `ready` on; at the end it must stop when told to, unless it was killed."""
        log = self.folder / f"{node}.log"
        command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "-n", f"{node}@here", "-l", "DEBUG", *options]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, **self.settings}, stdout=output, stderr=subprocess.STDOUT
            )
        worker = Worker(process, log)
        try:
            eventually(lambda: worker.logged(f"{node}@here ready."))
            yield worker
            if process.poll() is None:
                process.terminate()
                assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()

    def close(self) -> None:
        with suppress(AttributeError):  # of a consumer that never started
            self.app.backend.result_consumer.stop()
        self.app.close()
        with self.broker.login() as client:
            client.call(spec.Queue.Delete(queue=self.name))
            for exchange in ("", ".events", ".pidbox"):
                client.call(spec.Exchange.Delete(exchange=self.name + exchange))
            client.call(spec.Exchange.Delete(exchange=f"reply.{self.name}.pidbox"))

    def diary(self) -> list[str]:
        file = self.folder / "diary"
        return file.read_text().split() if file.exists() else []


MakeJobs = Callable[..., Jobs]


@pytest.fixture
def make_jobs(broker: Broker, tmp_path: Path) -> Iterator[MakeJobs]:
    made: list[Jobs] = []

    def make(**settings: str) -> Jobs:
        made.append(Jobs(broker, tmp_path, **settings))
        return made[-1]

    yield make
    for jobs in made:
        jobs.close()


@pytest.fixture(scope="module", autouse=True)
def connections() -> Iterator[None]:
    """Close the connections of this process at the end; the applications share them, as they have the same broker."""
    yield
    pools.reset()


@pytest.fixture(scope="module")
def jobs(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    jobs = Jobs(broker, tmp_path_factory.mktemp("celery"))
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def worker(jobs: Jobs, eventually: Eventually) -> Iterator[Worker]:
    """One worker for the tests that do not need their own."""
    with jobs.worker(eventually, "shared", "--pool", "threads", "--concurrency", "4", "-E") as worker:
        yield worker


# Tasks and their results


@pytest.mark.usefixtures("worker")
def test_task_returns_its_result(jobs: Jobs) -> None:
    results = [jobs.tasks.add.delay(n, n) for n in range(20)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * n for n in range(20)]


@pytest.mark.usefixtures("worker")
def test_exception_of_a_task_reaches_the_caller(jobs: Jobs) -> None:
    with pytest.raises(LookupError, match="nothing there"):
        jobs.tasks.fail.delay().get(timeout=PATIENCE)


@pytest.mark.usefixtures("worker")
def test_group_joins_its_results(jobs: Jobs) -> None:
    result = group(jobs.tasks.add.s(n, 1) for n in range(10)).delay()
    assert result.get(timeout=PATIENCE) == list(range(1, 11))


@pytest.mark.usefixtures("worker")
def test_chain_passes_results_on(jobs: Jobs) -> None:
    result = chain(jobs.tasks.add.s(1, 2), jobs.tasks.add.s(3), jobs.tasks.add.s(4)).delay()
    assert (result.parent.parent.get(timeout=PATIENCE), result.get(timeout=PATIENCE)) == (3, 10)


def test_rpc_results_cannot_make_a_chord(jobs: Jobs) -> None:
    """Celery's own rule: a chord needs a store that all workers read, and a reply queue is read by one client."""
    with pytest.raises(NotImplementedError, match="does not support chords"):
        chord([jobs.tasks.add.s(1, 1)])(jobs.tasks.total.s())


def test_chord_with_a_store_for_results(make_jobs: MakeJobs, tmp_path: Path, eventually: Eventually) -> None:
    """The results are files; the broker carries the tasks, and the one that looks again and again whether all are there."""
    (tmp_path / "results").mkdir()
    jobs = make_jobs(JOBS_BACKEND=f"file://{tmp_path / 'results'}")
    with jobs.worker(eventually, "chord", *ALONE):
        result = chord(jobs.tasks.add.s(n, n) for n in range(10))(jobs.tasks.total.s())
        assert result.get(timeout=PATIENCE) == 90


# Later and again


@pytest.mark.usefixtures("worker")
def test_failing_task_is_retried_with_growing_delays(jobs: Jobs) -> None:
    result = jobs.tasks.divide_at_last.delay(6, 3)
    assert result.get(timeout=PATIENCE) == 2.0


@pytest.mark.usefixtures("worker")
def test_task_retries_itself(jobs: Jobs) -> None:
    assert jobs.tasks.retry_by_hand.delay(3).get(timeout=PATIENCE) == 3


@pytest.mark.usefixtures("worker")
def test_task_runs_out_of_retries(jobs: Jobs) -> None:
    with pytest.raises(MaxRetriesExceededError):
        jobs.tasks.retry_by_hand.delay(4).get(timeout=PATIENCE)


@pytest.mark.usefixtures("worker")
def test_task_waits_for_its_time(jobs: Jobs) -> None:
    """A worker takes more than its prefetch count while tasks wait in it: it raises the count as it goes."""
    due = datetime.now(UTC) + timedelta(seconds=1)
    waiting = [jobs.tasks.now.apply_async(countdown=1) for _ in range(10)] + [jobs.tasks.now.apply_async(eta=due)]
    assert jobs.tasks.now.delay().get(timeout=PATIENCE) < due.timestamp()
    assert all(result.get(timeout=PATIENCE) >= due.timestamp() for result in waiting)


def test_delays_by_levels_of_queues(make_jobs: MakeJobs, broker: Broker, eventually: Eventually) -> None:
    """With quorum queues the broker does the waiting: a topic exchange and a queue with x-message-ttl for each bit of it."""
    jobs = make_jobs(JOBS_QUEUE_TYPE="quorum")
    try:
        with jobs.worker(eventually, "quorum", *ALONE):
            sent = time.monotonic()
            assert jobs.tasks.add.apply_async((1, 2), countdown=3).get(timeout=PATIENCE) == 3
            assert time.monotonic() - sent >= 2
    finally:
        with broker.login() as client:
            for level in range(28):
                client.call(spec.Queue.Delete(queue=f"celery_delayed_{level}"))
                client.call(spec.Exchange.Delete(exchange=f"celery_delayed_{level}"))
            client.call(spec.Exchange.Delete(exchange="celery_delayed_delivery"))


def test_task_of_a_killed_worker_is_done_by_another(make_jobs: MakeJobs, eventually: Eventually) -> None:
    jobs = make_jobs()
    with jobs.worker(eventually, "victim", *ALONE) as victim:
        result = jobs.tasks.hang_unless_redelivered.delay()
        eventually(jobs.diary)
        victim.process.kill()
        victim.process.wait()
    with jobs.worker(eventually, "heir", *ALONE) as heir:
        assert result.get(timeout=PATIENCE) == "done by another"
    assert jobs.diary() == [str(victim.process.pid), str(heir.process.pid)]


def test_urgent_tasks_come_first(make_jobs: MakeJobs, eventually: Eventually) -> None:
    jobs = make_jobs(JOBS_MAX_PRIORITY="9")
    with jobs.app.connection_for_write() as connection:
        jobs.app.amqp.queues[jobs.name].bind(connection.default_channel).declare()
    for text, priority in [("low", 1), ("none", None), ("high", 9), ("middle", 5), ("high-too", 9)]:
        jobs.tasks.note.apply_async((text,), priority=priority)
    with jobs.worker(eventually, "only", *ALONE):
        eventually(lambda: len(jobs.diary()) == 5)
    assert jobs.diary() == ["high", "high-too", "middle", "low", "none"]


# Remote control


@pytest.mark.usefixtures("worker")
def test_ping_is_answered(jobs: Jobs) -> None:
    assert jobs.app.control.ping(timeout=PATIENCE, limit=1) == [{"shared@here": {"ok": "pong"}}]


@pytest.mark.usefixtures("worker")
def test_worker_tells_about_itself(jobs: Jobs) -> None:
    inspect = jobs.app.control.inspect(["shared@here"], timeout=PATIENCE)
    assert "jobs.add" in inspect.registered()["shared@here"]
    (queue,) = inspect.active_queues()["shared@here"]
    assert queue["name"] == jobs.name
    assert inspect.stats()["shared@here"]["pool"]["max-concurrency"] == 4


@pytest.mark.usefixtures("worker")
def test_revoked_task_is_not_done(jobs: Jobs, eventually: Eventually) -> None:
    result = jobs.tasks.now.apply_async(countdown=2)
    inspect = jobs.app.control.inspect(["shared@here"], timeout=PATIENCE)
    eventually(lambda: result.id in [task["request"]["id"] for task in inspect.scheduled()["shared@here"]])
    assert jobs.app.control.revoke(result.id, reply=True, destination=["shared@here"], timeout=PATIENCE)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE)


@pytest.mark.usefixtures("worker")
def test_worker_consumes_from_another_queue_when_told(jobs: Jobs, unique: Callable[[], str]) -> None:
    name = unique()
    control = {"reply": True, "destination": ["shared@here"], "timeout": PATIENCE}
    (added,) = jobs.app.control.add_consumer(name, exchange=name, routing_key=name, **control)
    assert added["shared@here"] == {"ok": f"add consumer {name}"}
    assert jobs.tasks.add.apply_async((2, 3), queue=name).get(timeout=PATIENCE) == 5
    (cancelled,) = jobs.app.control.cancel_consumer(name, **control)
    assert cancelled["shared@here"] == {"ok": f"no longer consuming from {name}"}
    ignored = jobs.tasks.add.apply_async((2, 3), queue=name)
    assert jobs.tasks.add.delay(3, 4).get(timeout=PATIENCE) == 7
    assert not ignored.ready()


@pytest.mark.usefixtures("worker")
def test_events_tell_what_happens_to_a_task(jobs: Jobs) -> None:
    seen: list[str] = []

    def on_event(event: dict[str, Any]) -> None:
        if event.get("uuid") == result.id:
            seen.append(event["type"])

    with jobs.app.connection_for_read() as parameters:
        receiver = jobs.app.events.Receiver(parameters, handlers={"*": on_event})
        with receiver.consumer_context() as (connection, _, _):
            result = jobs.tasks.add.delay(1, 1)
            while "task-succeeded" not in seen:
                connection.drain_events(timeout=PATIENCE)
    assert seen == ["task-received", "task-started", "task-succeeded"]


def test_workers_find_each_other(jobs: Jobs, worker: Worker, eventually: Eventually) -> None:
    """Mingle asks who is there when a worker starts; gossip hears who comes and goes. They share the tasks."""
    with jobs.worker(eventually, "second", "--pool", "solo") as second:
        assert second.logged("mingle: sync with 1 nodes")
        eventually(lambda: worker.logged("second@here joined the party"))
        eventually(lambda: second.logged("shared@here joined the party"))
        answers = jobs.app.control.ping(timeout=PATIENCE, limit=2)
        assert sorted(name for answer in answers for name in answer) == ["second@here", "shared@here"]
        results = [jobs.tasks.add.delay(n, 0) for n in range(40)]
        assert [result.get(timeout=PATIENCE) for result in results] == list(range(40))
        assert second.logged("Task jobs.add")
    eventually(lambda: worker.logged("second@here left"))
