"""Run the same AMQP workloads against brokers in turn, and show how many times as fast Leveret is as RabbitMQ, or as
another install of Leveret.

Each workload is run in rounds, in which the brokers take turns and begin in turn, so that a noisy moment of a shared machine
hits all of them alike.  Of each figure the table has the lowest, the median and the highest round; cpu is the broker's own
processor time for each message (connection, queue).  Ratios are of medians, and above 1 where the broker is better, whether
its figure is a rate or a time.  Where a figure is demanded, the table says whether its median reached it.

  compare.py [--rounds 3] [--scale 1.0] [--only NAME,...] [--plain] [--no-leveret] [--no-rabbitmq]
             [--leveret NAME=PROGRAM ...] [--port name=port:pid ...] [--json FILE] [--record] [--strict]
  compare.py --history [--strict]

Was a change slower?  Build the commit before it in a worktree of its own, and run both, with nothing else on the machine:

  git worktree add ../before HEAD~1 && make -C ../before build
  make build
  .venv/bin/python tests/bench/compare.py --no-rabbitmq --rounds 7 --leveret before=../before/.venv/bin/leveret

The last column is then this tree's ratio to the first install named by --leveret: of the ratios of each round the median
and, in brackets, the lowest and the highest.  A figure is SLOWER whose median is below 0.97, and SLOWER? if it was not in
every round: that may be noise, so run that workload again.  A judged run has --rounds 7.  Extremes (p99, the slowest run)
differ each time; they are shown, and never SLOWER.

--record adds the figures to tests/bench/history.json, if the tree has no changes; --history shows what fell by more than 3 %
since it was last measured on the same machine.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import history
from tests.bench.brokers import KINDS, Broker, BrokerFailed, leveret, stop_on_sigterm
from tests.bench.result import REFERENCE, TOLERANCE, Result, headings, results_of, table_lines
from tests.bench.workloads import WORKLOADS, RunFailed, run_workload

TREE = Path(__file__).resolve().parents[2]


def in_turn(brokers: Sequence[Broker], number: int) -> list[Broker]:
    """Return the order of a round: each has its turn to be the first."""
    first = number % len(brokers) if brokers else 0
    return [*brokers[first:], *brokers[:first]]


def measure(name: str, brokers: Sequence[Broker], rounds: int, scale: float, first: str | None = None) -> list[Result]:
    """Run one workload on each broker in turn, round by round; one over TLS on those that have it."""
    brokers = [broker for broker in brokers if broker.tls_port or not WORKLOADS[name].tls]
    runs: dict[str, list[dict[str, float] | None]] = {broker.name: [] for broker in brokers}
    failures: dict[str, list[str]] = {broker.name: [] for broker in brokers}
    for number in range(rounds):
        for broker in in_turn(brokers, number):
            try:
                runs[broker.name].append(run_workload(broker, name, scale))
            except RunFailed as error:
                runs[broker.name].append(None)
                failures[broker.name].append(str(error))
    results = results_of(name, runs, first)
    for result in results:
        if result.figure == WORKLOADS[name].figures[0]:
            result.failures = failures[result.broker]
    return results


def _parse_broker(text: str) -> Broker:
    name, _, where = text.partition("=")
    port, _, pid = where.partition(":")
    return Broker(name, int(port), int(pid or 0))


def _parse_install(text: str) -> tuple[str, Path]:
    name, _, program = text.partition("=")
    path = Path(program).absolute()
    if not name or not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PROGRAM, as before=../before/.venv/bin/leveret")
    if name in KINDS:
        raise argparse.ArgumentTypeError(f"{name} is this tree's, or RabbitMQ: give it another name")
    return name, path


def _parse_names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return names


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=3, help="each figure is of so many runs; 7 to judge a change")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies how much of each workload is run")
    parser.add_argument("--only", type=_parse_names, default=list(WORKLOADS), metavar="NAME,...")
    parser.add_argument("--plain", action="store_true", help="also Leveret as plain Python")
    parser.add_argument("--no-leveret", action="store_true", help="only the other brokers")
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument(
        "--leveret",
        type=_parse_install,
        action="append",
        default=[],
        dest="installs",
        metavar="NAME=PROGRAM",
        help="another install of Leveret, by its command; what is in this run besides is compared with the first one",
    )
    parser.add_argument(
        "--port",
        type=_parse_broker,
        nargs="+",
        default=[],
        metavar="name=port:pid",
        help="brokers that already run; one called rabbitmq is what the others are compared with",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--record", action="store_true", help="add the figures to tests/bench/history.json")
    parser.add_argument("--history", action="store_true", help="only show what fell, by tests/bench/history.json")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a demanded figure is missed")
    options = parser.parse_args(arguments)
    names = [*chosen_kinds(options), *(name for name, _ in options.installs), *(broker.name for broker in options.port)]
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if len(names) != len(set(names)):
        parser.error(f"each broker needs a name of its own: {', '.join(names)}")
    return options


def chosen_kinds(options: argparse.Namespace) -> list[str]:
    left_out = {
        "leveret": options.no_leveret,
        "plain": not options.plain,
        REFERENCE: options.no_rabbitmq or any(broker.name == REFERENCE for broker in options.port),
    }
    return [kind for kind in KINDS if not left_out[kind]]


def run(options: argparse.Namespace) -> list[Result]:
    """Start the brokers, run the workloads and print the table as it grows."""
    first: str | None = options.installs[0][0] if options.installs else None
    results: list[Result] = []
    starts: list[AbstractContextManager[Broker]] = [
        leveret(program=program, name=name) for name, program in options.installs
    ]
    starts += [KINDS[kind]() for kind in chosen_kinds(options)]
    with ExitStack() as stack:
        brokers = [stack.enter_context(start) for start in starts] + options.port
        print(headings(first), flush=True)
        for name in options.only:
            rows = measure(name, brokers, options.rounds, options.scale, first)
            results += rows
            print("\n".join(table_lines(rows)), flush=True)
    return results


def show_history(file: Path = history.FILE) -> bool:
    """Print what fell in the last entry of each machine; return whether anything did."""
    entries = history.read(file)
    fallen = False
    for entry in history.newest(entries):
        fell = history.falls(entries, entry)
        fallen |= bool(fell)
        print(f"{entry['commit']} of {entry['date']} on {entry['machine']}: {len(fell)} fell by more than {TOLERANCE:.0%}")
        for fall in fell:
            print(f"  {fall}")
    if not entries:
        print("nothing is recorded yet")
    return fallen


def add_to_history(results: Sequence[Result], options: argparse.Namespace, commit: str, file: Path = history.FILE) -> None:
    """Record what this tree's brokers and RabbitMQ did, not what other installs and brokers did."""
    kinds = chosen_kinds(options)
    own = [result for result in results if result.broker in kinds]
    entry = history.record(own, commit, options.rounds, file)
    fell = history.falls([*history.read(file)[:-1], entry], entry)
    print(f"recorded {commit}: {len(fell)} fell by more than {TOLERANCE:.0%} since they were last measured on this machine")
    for fall in fell:
        print(f"  {fall}")


def commit_of(options: argparse.Namespace) -> str:
    """Return the commit that a run with these options may be recorded for."""
    if options.scale != 1:
        raise history.NotRecorded("--scale changes what is measured")
    return history.clean_commit(TREE)


def conclude(results: Sequence[Result], options: argparse.Namespace) -> int:
    """Print what it comes to and return the exit status."""
    verdicts = [result.reached for result in results]
    print(f"\ndemanded figures: {verdicts.count(True)} reached, {verdicts.count(False)} missed")
    slower = [result for result in results if result.slower]
    if options.installs:
        named = ", ".join(dict.fromkeys(f"{result.workload} ({result.broker})" for result in slower))
        print(f"slower than {options.installs[0][0]} by more than {TOLERANCE:.0%}: {named or 'none'}")
    failed = any(result.failures for result in results)
    return 1 if failed or (options.strict and (False in verdicts or slower)) else 0


def main() -> int:
    options = parse()
    if options.history:
        return int(show_history() and options.strict)
    stop_on_sigterm()
    try:
        # Before the run, which may take longer than somebody's next change.
        may_record = partial(add_to_history, commit=commit_of(options)) if options.record else None
    except history.NotRecorded as error:
        print(f"this run is not recorded: {error}", flush=True)
        may_record = None
    try:
        results = run(options)
    except BrokerFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        figures = [
            asdict(result) | {"spread": asdict(result.spread) if result.spread else None, "ratio": result.ratio}
            for result in results
        ]
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if may_record is not None:
        try:
            may_record(results, options)
        except history.NotRecorded as error:
            print(f"this run is not recorded: {error}")
    return conclude(results, options)


if __name__ == "__main__":
    sys.exit(main())
