"""Run the same AMQP workloads against Leveret and RabbitMQ in turn and print how many times as fast Leveret is.

Each workload is run in rounds, the brokers taking turns, and the median is kept, so that a noisy moment of a shared
machine hits all of them alike.  Rates are messages a second through the broker; cpu is the broker's own processor time
a message.  Where a figure is demanded, the table says whether it was reached.

  compare.py [--rounds 3] [--scale 1.0] [--only NAME,...] [--plain] [--no-rabbitmq] [--port name=port:pid ...]
             [--json FILE] [--strict]
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import KINDS, Broker, BrokerFailed, stop_on_sigterm

GENERATOR = Path(__file__).with_name("amqp_load.py")
REFERENCE = "rabbitmq"
RUN_SECONDS = 420


@dataclass(frozen=True, slots=True)
class Workload:
    """Options of the load generator, how many messages, and what is demanded of each broker by name."""

    arguments: tuple[str, ...]
    count: int
    ratios: dict[str, float] = field(default_factory=dict)
    cpu_us: dict[str, float] = field(default_factory=dict)


def _workload(arguments: str, count: int, ratio: float | None = None) -> Workload:
    return Workload(tuple(arguments.split()), count, {} if ratio is None else {"leveret": ratio})


WORKLOADS = {
    "transient-autoack": Workload(("--size", "100"), 300_000, {"leveret": 6.0, "plain": 1.5}, {"leveret": 1.6}),
    "transient-confirm-ack100": _workload("--size 100 --confirm --ack 100", 300_000, 8.0),
    "transient-confirm-ack1": _workload("--size 100 --confirm --ack 1", 100_000, 6.0),
    "persistent-confirm-ack100": _workload("--size 100 --confirm --ack 100 --persistent", 200_000, 5.0),
    "persistent-1k": _workload("--size 1024 --confirm --ack 100 --persistent", 100_000, 6.0),
    "20-queues": _workload("--size 100 --confirm --ack 100 --queues 20", 300_000, 6.0),
    "properties": _workload("--size 100 --props --confirm --ack 100", 200_000, 6.0),
    "topic-1000-keys": _workload("--size 100 --keys 1000 --idle-bindings 2000", 200_000, 8.0),
    "fanout-10": _workload("--size 100 --fanout --queues 10", 40_000, 5.0),
    "deep-queue": _workload("--size 100 --drain", 1_000_000, 8.0),
    "deep-queue-persistent": _workload("--size 100 --drain --persistent --confirm --ack 100", 300_000, 8.0),
    "big-64k": _workload("--size 65536 --confirm --ack 10", 10_000, 1.5),
}


class RunFailed(Exception):
    """One run of the generator ended with an error."""


@dataclass(slots=True)
class Result:
    """One broker's medians on one workload, and what is demanded of them."""

    workload: str
    broker: str
    rate: float | None
    cpu_us: float | None = None
    reference_rate: float | None = None
    ratio_demanded: float | None = None
    cpu_us_demanded: float | None = None
    failures: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return self.rate / self.reference_rate if self.rate is not None and self.reference_rate else None

    @property
    def ratio_reached(self) -> bool | None:
        """Whether the ratio is what is demanded; None if none is, or it could not be told."""
        return None if self.ratio is None or self.ratio_demanded is None else self.ratio >= self.ratio_demanded

    @property
    def cpu_reached(self) -> bool | None:
        return None if self.cpu_us is None or self.cpu_us_demanded is None else self.cpu_us <= self.cpu_us_demanded


def run_load(broker: Broker, arguments: Iterable[str], count: int) -> dict[str, float]:
    """Run the generator once and return its figures."""
    command = [sys.executable, str(GENERATOR), "--port", str(broker.port), "--count", str(count), *arguments]
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


def run_workload(name: str, brokers: Sequence[Broker], rounds: int, scale: float) -> list[Result]:
    """Run one workload on each broker in turn, round by round."""
    workload = WORKLOADS[name]
    # At least one message for each of the queues.
    count = max(100, int(workload.count * scale))
    runs: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
    failures: dict[str, list[str]] = {broker.name: [] for broker in brokers}
    for _ in range(rounds):
        for broker in brokers:
            try:
                runs[broker.name].append(run_load(broker, workload.arguments, count))
            except RunFailed as error:
                failures[broker.name].append(str(error))
    drained = "--drain" in workload.arguments
    results = [
        Result(
            name,
            broker,
            rate=_median(done, "consume_rate" if drained else "rate"),
            cpu_us=_median(done, "broker_cpu_us_per_msg"),
            ratio_demanded=workload.ratios.get(broker),
            cpu_us_demanded=workload.cpu_us.get(broker),
            failures=failures[broker],
        )
        for broker, done in runs.items()
    ]
    publishing = [
        Result(f"{name} publishing", broker, _median(done, "publish_rate"), ratio_demanded=workload.ratios.get(broker))
        for broker, done in runs.items()
    ]
    return _with_reference(results) + (_with_reference(publishing) if drained else [])


def _median(runs: list[dict[str, float]], key: str) -> float | None:
    return statistics.median(run[key] for run in runs) if runs and key in runs[0] else None


def _with_reference(results: list[Result]) -> list[Result]:
    """Tell each broker's result the reference's rate, if that one ran."""
    for reference in results:
        if reference.broker == REFERENCE:
            for result in results:
                if result is not reference:
                    result.reference_rate = reference.rate
    return results


COLUMNS = "{:<33}{:<10}{:>10}{:>10}{:>8}{:>10} {:<8}{:>8}{:>10} {:<8}"
HEADINGS = ("workload", "broker", "msg/s", "RabbitMQ", "ratio", "demanded", "", "cpu µs", "demanded", "")


def table_lines(results: list[Result]) -> Iterator[str]:
    """Yield the table's lines for some results, and what their runs died of."""
    shown = ""
    for result in results:
        cells = (
            result.workload if result.workload != shown else "",
            result.broker,
            _cell("{:,.0f}", result.rate),
            _cell("{:,.0f}", result.reference_rate),
            _cell("{:.2f}", result.ratio),
            _cell("≥ {:g}", result.ratio_demanded),
            _verdict(result.ratio_reached),
            _cell("{:.2f}", result.cpu_us),
            _cell("≤ {:g}", result.cpu_us_demanded),
            _verdict(result.cpu_reached),
        )
        shown = result.workload
        yield COLUMNS.format(*cells).rstrip()
        for failure in dict.fromkeys(result.failures):
            yield f"    {result.failures.count(failure)} × failed: {failure}"


def _cell(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def _verdict(reached: bool | None) -> str:
    return "" if reached is None else "reached" if reached else "MISSED"


def _parse_broker(text: str) -> Broker:
    name, _, where = text.partition("=")
    port, _, pid = where.partition(":")
    return Broker(name, int(port), int(pid or 0))


def _parse_names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return names


def parse() -> argparse.Namespace:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=3, help="each figure is the median of so many runs")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies each workload's number of messages")
    parser.add_argument("--only", type=_parse_names, default=list(WORKLOADS), metavar="NAME,...")
    parser.add_argument("--plain", action="store_true", help="also Leveret as plain Python")
    parser.add_argument("--no-leveret", action="store_true", help="only the other brokers")
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument(
        "--port",
        type=_parse_broker,
        nargs="+",
        default=[],
        metavar="name=port:pid",
        help="brokers that already run; one called rabbitmq is what the others are compared with",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a demanded figure is missed")
    return parser.parse_args()


def chosen_kinds(options: argparse.Namespace) -> list[str]:
    left_out = {
        "leveret": options.no_leveret,
        "plain": not options.plain,
        REFERENCE: options.no_rabbitmq or any(broker.name == REFERENCE for broker in options.port),
    }
    return [kind for kind in KINDS if not left_out[kind]]


def run(options: argparse.Namespace) -> list[Result]:
    """Start the brokers, run the workloads and print the table as it grows."""
    results: list[Result] = []
    with ExitStack() as stack:
        brokers = [stack.enter_context(KINDS[kind]()) for kind in chosen_kinds(options)] + options.port
        print(COLUMNS.format(*HEADINGS).rstrip(), flush=True)
        for name in options.only:
            rows = run_workload(name, brokers, options.rounds, options.scale)
            results += rows
            print("\n".join(table_lines(rows)), flush=True)
    return results


def main() -> int:
    options = parse()
    stop_on_sigterm()
    try:
        results = run(options)
    except BrokerFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        figures = [asdict(result) | {"ratio": result.ratio} for result in results]
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    verdicts = [verdict for result in results for verdict in (result.ratio_reached, result.cpu_reached)]
    print(f"\ndemanded figures: {verdicts.count(True)} reached, {verdicts.count(False)} missed")
    failed = any(result.failures for result in results)
    return 1 if failed or (options.strict and False in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
