"""dramatiq, with real worker processes, against the broker.

Each queue has two more: `.DQ` for messages that wait, `.XQ` for those given up, which get there by x-dead-letter-exchange
and leave by x-message-ttl.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dramatiq
import pytest
from dramatiq.results import ResultFailure
from pika import spec

if TYPE_CHECKING:
    from tests.interop.conftest import Broker

Eventually = Callable[[Callable[[], object]], None]
PATIENCE = 60
PATIENCE_MS = 1000 * PATIENCE

MODULE = '''
import os
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.results import ResultBackend, Results
from dramatiq.results.backend import Missing

NAME = os.environ["ACTORS_NAME"]
FOLDER = Path(__file__).parent


class Files(ResultBackend):
    """Results as files: those of dramatiq need a server or stay in one process."""

    def _get(self, key):
        file = FOLDER / key
        return self.encoder.decode(file.read_bytes()) if file.exists() else Missing

    def _store(self, key, result, ttl):
        (FOLDER / f"{key}.new").write_bytes(self.encoder.encode(result))
        (FOLDER / f"{key}.new").rename(FOLDER / key)


broker = RabbitmqBroker(url=os.environ["ACTORS_BROKER"], confirm_delivery=True, max_priority=9)
broker.add_middleware(Results(backend=Files(), store_results=True))
dramatiq.set_broker(broker)


def note(text):
    with (FOLDER / "diary").open("a") as diary:
        diary.write(f"{text}\\n")


def diary():
    file = FOLDER / "diary"
    return file.read_text().split() if file.exists() else []


@dramatiq.actor(queue_name=NAME)
def add(a, b):
    return a + b


@dramatiq.actor(queue_name=NAME)
def write(text):
    note(text)


@dramatiq.actor(queue_name=NAME)
def now():
    return time.time()


@dramatiq.actor(queue_name=NAME, max_retries=5, min_backoff=50, max_backoff=200)
def succeed_in_the_end(times):
    note("try")
    if len(diary()) < times:
        raise ValueError("not yet")
    return len(diary())


@dramatiq.actor(queue_name=NAME, max_retries=1, min_backoff=50, max_backoff=50)
def fail():
    raise ValueError("never")


@dramatiq.actor(queue_name=NAME)
def hang_once():
    note(os.getppid())
    if len(diary()) == 1:
        time.sleep(600)
    return "done by another"
'''


class Actors:
    """An application: its module in a folder, queues of its own, and workers."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.folder = folder
        self.name = f"interop-{uuid.uuid4()}"
        self.settings = {"ACTORS_NAME": self.name, "ACTORS_BROKER": broker.url}
        (folder / "actors.py").write_text(MODULE)
        self.module = self._load()

    def _load(self) -> Any:
        """Import the module as the workers do, with the same settings."""
        found = spec_from_file_location("actors", self.folder / "actors.py")
        assert found is not None
        assert found.loader is not None
        module = module_from_spec(found)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.settings.items():
                patch.setenv(name, value)
            found.loader.exec_module(module)
        return module

    @contextmanager
    def worker(self, eventually: Eventually, *options: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker, from its `ready` on; at the end it must stop when told to, unless it was killed.

        It is a process that starts another, so it has a process group of its own.
        """
        log = self.folder / f"{uuid.uuid4()}.log"
        command = [sys.executable, "-m", "dramatiq", "actors", "--processes", "1", "--threads", "2", *options]
        environment = {**os.environ, **self.settings, "dramatiq_worker_timeout": "50", **settings}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            eventually(lambda: process.poll() is not None or "ready for action" in log.read_text())
            assert process.poll() is None, log.read_text()
            yield process
            if process.poll() is None:
                process.terminate()
                assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            kill_group(process)

    def counts(self) -> tuple[int, int, int]:
        """Count the messages that wait, that wait for their time, and that were given up."""
        counts: tuple[int, int, int] = self.module.broker.get_queue_message_counts(self.name)
        return counts


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def application(broker: Broker, folder: Path) -> Iterator[Actors]:
    actors = Actors(broker, folder)
    yield actors
    actors.module.broker.close()
    with broker.login() as client:
        for suffix in ("", ".DQ", ".XQ"):
            client.call(spec.Queue.Delete(queue=actors.name + suffix))


@pytest.fixture
def actors(broker: Broker, tmp_path: Path) -> Iterator[Actors]:
    with application(broker, tmp_path) as actors:
        yield actors


@pytest.fixture(scope="module")
def shared(broker: Broker, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Actors]:
    with application(broker, tmp_path_factory.mktemp("dramatiq")) as actors, actors.worker(eventually):
        yield actors


@pytest.fixture
def at_work(shared: Actors) -> Actors:
    """An application with a worker, for the tests that do not need their own."""
    dramatiq.set_broker(shared.module.broker)  # where results are looked for
    return shared


# Actors and their results


def test_actor_returns_its_result(at_work: Actors) -> None:
    messages = [at_work.module.add.send(n, n) for n in range(20)]
    assert [message.get_result(block=True, timeout=PATIENCE_MS) for message in messages] == [2 * n for n in range(20)]


def test_group_collects_its_results(at_work: Actors) -> None:
    group = dramatiq.group(at_work.module.add.message(n, 1) for n in range(10)).run()
    assert list(group.get_results(block=True, timeout=PATIENCE_MS)) == list(range(1, 11))


def test_pipeline_passes_results_on(at_work: Actors) -> None:
    add = at_work.module.add
    pipeline = (add.message(1, 2) | add.message(3) | add.message(4)).run()
    assert pipeline.get_result(block=True, timeout=PATIENCE_MS) == 10


def test_missing_queue_is_declared_again(actors: Actors, broker: Broker) -> None:
    """dramatiq publishes with mandatory and confirms; what is returned tells it that the queue is gone."""
    actors.module.add.send(1, 1)
    with broker.login() as client:
        client.call(spec.Queue.Delete(queue=actors.name))
    actors.module.add.send(2, 2)
    assert actors.counts() == (1, 0, 0)


# Later and again


def test_message_waits_for_its_time(at_work: Actors) -> None:
    sent = time.time()  # noqa: TID251 - the clock of the other process
    late = at_work.module.now.send_with_options(delay=1000)
    early = at_work.module.now.send()
    assert early.get_result(block=True, timeout=PATIENCE_MS) < sent + 1
    assert late.get_result(block=True, timeout=PATIENCE_MS) >= sent + 1


def test_failing_message_is_retried_with_growing_delays(at_work: Actors) -> None:
    message = at_work.module.succeed_in_the_end.send(4)
    assert message.get_result(block=True, timeout=PATIENCE_MS) == 4


def test_message_is_given_up_after_its_retries(at_work: Actors, broker: Broker, eventually: Eventually) -> None:
    message = at_work.module.fail.send()
    with pytest.raises(ResultFailure, match="never"):
        message.get_result(block=True, timeout=PATIENCE_MS)
    eventually(lambda: at_work.counts() == (0, 0, 1))
    with broker.login() as client:
        client.send_method(spec.Basic.Get(queue=f"{at_work.name}.XQ", no_ack=True))
        client.expect(spec.Basic.GetOk)
        (death,) = client.read_content()[0].headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", at_work.name, 1)


def test_given_up_message_is_forgotten_in_time(
    actors: Actors, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dramatiq.brokers.rabbitmq.DEAD_MESSAGE_TTL", 300)
    with actors.worker(eventually, dramatiq_dead_message_ttl="300"):
        actors.module.fail.send()
        eventually(lambda: actors.counts() == (0, 0, 1))
        eventually(lambda: actors.counts() == (0, 0, 0))


def test_message_of_a_killed_worker_is_done_by_another(actors: Actors, eventually: Eventually) -> None:
    with actors.worker(eventually) as victim:
        message = actors.module.hang_once.send()
        eventually(actors.module.diary)
        kill_group(victim)
    with actors.worker(eventually) as heir:
        assert message.get_result(block=True, timeout=PATIENCE_MS) == "done by another"
    assert actors.module.diary() == [str(victim.pid), str(heir.pid)]


def test_urgent_messages_come_first(actors: Actors, eventually: Eventually) -> None:
    for text, priority in [("low", 1), ("none", None), ("high", 9), ("middle", 5), ("high-too", 9)]:
        actors.module.write.send_with_options(args=(text,), broker_priority=priority)
    assert actors.counts() == (5, 0, 0)
    with actors.worker(eventually, "--threads", "1", dramatiq_queue_prefetch="1"):
        eventually(lambda: len(actors.module.diary()) == 5)
    assert actors.module.diary() == ["high", "high-too", "middle", "low", "none"]
