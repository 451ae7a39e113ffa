"""What `make bench` measures: for each workload the generator and its options, which of its figures are shown, and what
is demanded of them."""

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import Broker

RUN_SECONDS = 420
LOAD, LATENCY, SERIAL = "amqp_load.py", "latency.py", "serial_confirms.py"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a generator's, as the table calls it, and whether less of it is better.

    A figure that is not `judged` may be worse than before: an extreme, which is different each time, or the disk's alone.
    """

    label: str
    less: bool = False
    judged: bool = True


CPU = "broker_cpu_us_per_msg"
FIGURES = {
    "rate": Figure("a second"),
    "publish_rate": Figure("in, a second"),
    "consume_rate": Figure("out, a second"),
    "delete_rate": Figure("deleted, a second"),
    "slowest": Figure("slowest / median", judged=False),
    "consumer_rate": Figure("its consumer alone", judged=False),
    "kept": Figure("of its consumer"),
    "kept_lowest": Figure("lowest second", judged=False),
    "p50_ms": Figure("p50 ms", less=True),
    "p99_ms": Figure("p99 ms", less=True, judged=False),
    "p999_ms": Figure("p99.9 ms", less=True, judged=False),
    "disk_p50_ms": Figure("disk alone p50 ms", less=True, judged=False),
    "disk_append_p50_ms": Figure("  appending, p50 ms", less=True, judged=False),
    "of_disk": Figure("p50 / disk alone", less=True),
    CPU: Figure("cpu µs", less=True),
}

# What is demanded of a figure, by broker.
Demand = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Workload:
    """A generator, its options, how much of it, and which figures are shown.

    `amount` is of messages, or of seconds; with --scale it does not go below `least`.  `ratios` are demanded of figures
    relative to RabbitMQ's, `bounds` of figures themselves.
    """

    arguments: tuple[str, ...]
    amount: float
    program: str = LOAD
    unit: str = "count"
    least: float = 100
    figures: tuple[str, ...] = ("rate", CPU)
    ratios: Mapping[str, Demand] = field(default_factory=dict)
    bounds: Mapping[str, Demand] = field(default_factory=dict)

    @property
    def tls(self) -> bool:
        """Whether it is for brokers with TLS."""
        return "--tls" in self.arguments

    def scaled(self, scale: float) -> float:
        amount = max(self.least, self.amount * scale)
        return int(amount) if self.unit == "count" else amount


def _ours(demanded: float) -> Demand:
    return {"leveret": demanded}


def _load(arguments: str, count: int, ratio: float, cpu: float | None = None, least: int = 100) -> Workload:
    """Messages that are published and consumed at once."""
    bounds = {} if cpu is None else {CPU: _ours(cpu)}
    return Workload(tuple(arguments.split()), count, least=least, ratios={"rate": _ours(ratio)}, bounds=bounds)


def _drain(arguments: str, count: int, ratio: float | None = None) -> Workload:
    """Messages that are all published, then consumed."""
    ratios = {} if ratio is None else {"consume_rate": _ours(ratio), "publish_rate": _ours(ratio)}
    return Workload((*arguments.split(), "--drain"), count, figures=("publish_rate", "consume_rate", CPU), ratios=ratios)


WORKLOADS = {
    "transient-autoack": Workload(
        ("--size", "100"), 300_000, ratios={"rate": {"leveret": 6.0, "plain": 1.5}}, bounds={CPU: _ours(1.6)}
    ),
    "transient-confirm-ack100": _load("--size 100 --confirm --ack 100", 300_000, 8.0),
    "transient-confirm-ack1": _load("--size 100 --confirm --ack 1", 100_000, 6.0, cpu=1.0),
    "persistent-confirm-ack100": _load("--size 100 --confirm --ack 100 --persistent", 200_000, 5.0),
    "persistent-1k": _load("--size 1024 --confirm --ack 100 --persistent", 100_000, 6.0),
    "20-queues": _load("--size 100 --confirm --ack 100 --queues 20", 300_000, 6.0),
    "properties": _load("--size 100 --props --confirm --ack 100", 200_000, 6.0),
    "topic-1000-keys": _load("--size 100 --keys 1000 --idle-bindings 2000", 200_000, 8.0),
    "fanout-10": _load("--size 100 --fanout --queues 10", 40_000, 5.0),
    "deep-queue": _drain("--size 100", 1_000_000, 8.0),
    "deep-queue-persistent": _drain("--size 100 --persistent --confirm --ack 100", 300_000, 8.0),
    "100-deep-queues": _drain("--size 100 --queues 100 --one-pair", 2_000_000),
    "back-after-a-rest": _drain("--size 100 --props --rest 10", 300_000),
    "big-64k": _load("--size 65536 --confirm --ack 10", 10_000, 2.5, cpu=33.0),
    "big-1m": _load("--size 1048576 --confirm --window 16 --prefetch 16 --ack 4", 600, 2.0, least=8),
    "big-16m": _load("--size 16777216 --confirm --window 4 --prefetch 4 --ack 1", 40, 2.0, least=2),
    "tls-confirm-ack100": _load("--size 100 --confirm --ack 100 --tls", 200_000, 5.0),
    "tls-64k": _load("--size 65536 --confirm --ack 10 --tls", 10_000, 1.5),
    "steady": Workload(
        ("--size", "100", "--props", "--times", "10"),
        200_000,
        figures=("rate", "slowest", CPU),
        bounds={"slowest": _ours(0.75)},
    ),
    "slow-consumer": Workload(
        ("--size", "100", "--props", "--slow"),
        10,
        unit="seconds",
        least=0.2,
        figures=("consumer_rate", "kept", "kept_lowest", CPU),
        bounds={"kept_lowest": _ours(0.75)},
    ),
    "latency-20k": Workload(
        ("--rate", "20000", "--size", "100"),
        5,
        LATENCY,
        unit="seconds",
        least=0.05,
        figures=("p50_ms", "p99_ms", "p999_ms", CPU),
    ),
    "serial-confirms": Workload(
        ("--size", "100"),
        2000,
        SERIAL,
        figures=("p50_ms", "p99_ms", "disk_p50_ms", "disk_append_p50_ms", "of_disk", CPU),
        bounds={"of_disk": _ours(2.0)},
    ),
    "1000-serial-publishers": Workload(
        ("--size", "100", "--publishers", "1000"),
        50_000,
        SERIAL,
        least=1000,
        figures=("rate", "p50_ms", "p99_ms", CPU),
    ),
    "connections": Workload((), 2000, "connections.py", bounds={"rate": _ours(2000)}),
    "churn": Workload(("--churn",), 500, "connections.py"),
    "declares": Workload(
        (),
        5000,
        "declares.py",
        figures=("rate", "delete_rate", CPU),
        bounds={"rate": _ours(10_000), "delete_rate": _ours(10_000)},
    ),
}


class RunFailed(Exception):
    """One run of a generator ended with an error."""


def run_program(broker: Broker, program: str, arguments: Collection[str]) -> dict[str, float]:
    """Run a generator once and return its figures."""
    port = broker.tls_port if "--tls" in arguments else broker.port
    command = [sys.executable, str(Path(__file__).with_name(program)), "--port", str(port), *arguments]
    if broker.pid:
        command += ["--pid", str(broker.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise RunFailed(f"no end after {RUN_SECONDS} s") from None
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise RunFailed((err.strip().splitlines() or [f"status {process.returncode}"])[-1])
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures


def run_load(broker: Broker, arguments: Collection[str], count: int) -> dict[str, float]:
    """Run the load generator once and return its figures."""
    return run_program(broker, LOAD, ["--count", str(count), *arguments])


def run_workload(broker: Broker, name: str, scale: float = 1.0) -> dict[str, float]:
    """Run a workload once and return its figures."""
    workload = WORKLOADS[name]
    amount = [f"--{workload.unit}", str(workload.scaled(scale))]
    return run_program(broker, workload.program, [*amount, *workload.arguments])
