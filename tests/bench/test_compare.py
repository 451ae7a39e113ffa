"""What `make bench` says of its rounds, of two installs and of the commits before."""

import sys
from pathlib import Path

import pytest
from tests.bench import compare
from tests.bench.brokers import Broker
from tests.bench.compare import conclude, in_turn, parse, run
from tests.bench.result import Result, headings, results_of, table_lines
from tests.bench.workloads import CPU, FIGURES, WORKLOADS, RunFailed

INSTALLED = Path(sys.prefix, "bin", "leveret")
AUTOACK = "transient-autoack"


def rates(*values: float | None) -> list[dict[str, float] | None]:
    return [None if value is None else {"rate": value, CPU: 1e6 / value} for value in values]


def by_name(results: list[Result], figure: str = "rate") -> dict[str, Result]:
    return {result.broker: result for result in results if result.figure == figure}


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_shows_figures_that_have_a_name_and_demands_what_it_shows(name: str) -> None:
    workload = WORKLOADS[name]
    assert set(workload.figures) <= set(FIGURES)
    assert set(workload.ratios) | set(workload.bounds) <= set(workload.figures)


def test_each_broker_has_its_turn_to_be_the_first() -> None:
    brokers = [Broker(name, 1, 0) for name in "abc"]
    orders = ["".join(broker.name for broker in in_turn(brokers, number)) for number in range(4)]
    assert orders == ["abc", "bca", "cab", "abc"]
    assert in_turn([], 1) == []


def test_table_has_minimum_median_and_maximum_and_the_ratio_to_rabbitmq() -> None:
    said = {"leveret": rates(1000, 8000, 7000), "rabbitmq": rates(500, 1000, 900)}
    results = results_of(AUTOACK, said)
    ours, theirs = by_name(results)["leveret"], by_name(results)["rabbitmq"]
    assert ours.ratio == pytest.approx(7000 / 900)
    assert theirs.ratio is None
    assert by_name(results, CPU)["leveret"].ratio == pytest.approx(7000 / 900)  # a time: less is better
    lines = list(table_lines(results))
    assert lines[0].split()[:7] == [AUTOACK, "a", "second", "leveret", "1,000", "7,000", "8,000"]
    assert lines[0].endswith("7.78 ≥ 6 × reached")
    assert lines[1].split() == ["rabbitmq", "500.0", "900.0", "1,000"]
    assert lines[2].endswith("≤ 1.6 MISSED")


def test_installs_are_compared_round_by_round() -> None:
    said = {"before": rates(100, 200, 400), "leveret": rates(90, 220, 400), "rabbitmq": rates(1, 1, 1)}
    results = by_name(results_of(AUTOACK, said, first="before"))
    found = results["leveret"].to_first
    assert found is not None
    assert (found.minimum, found.median, found.maximum) == pytest.approx((0.9, 1.0, 1.1))
    assert results["before"].to_first is results["rabbitmq"].to_first is None
    assert next(iter(table_lines([results["leveret"]]))).endswith("1.00 (0.90–1.10)")
    assert headings("before").endswith("× before (lowest–highest)")
    assert headings(None).endswith("demanded")


@pytest.mark.parametrize(("rate", "slower"), [(970.0, False), (969.0, True), (1100.0, False)])
def test_slower_is_what_is_slower_by_more_than_three_percent(rate: float, slower: bool) -> None:
    before, ours = {"rate": 1000.0, CPU: rate}, {"rate": rate, CPU: 1000.0}
    results = results_of(AUTOACK, {"before": [before], "leveret": [ours]}, first="before")
    assert by_name(results)["leveret"].slower is slower
    assert by_name(results, CPU)["leveret"].slower is slower
    assert any("SLOWER" in line for line in table_lines(results)) is slower


@pytest.mark.parametrize(("last", "mark"), [(999.0, "SLOWER"), (1000.0, "SLOWER?")])
def test_what_was_not_slower_in_every_round_may_be_noise(last: float, mark: str) -> None:
    result = Result(AUTOACK, "leveret", "rate", rounds=[500, 500, last], first=[1000] * 3)
    assert next(table_lines([result])).split()[-1] == mark


@pytest.mark.parametrize(("figure", "slower"), [("p50_ms", True), ("p99_ms", False), ("p999_ms", False)])
def test_extremes_are_never_slower(figure: str, slower: bool) -> None:
    result = Result("latency-20k", "leveret", figure, rounds=[2.0], first=[1.0])
    assert result.to_first is not None
    assert result.to_first.median == 0.5
    assert result.slower is slower


def test_failed_round_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounds of others keep their partners."""
    left = iter([1000.0, None, 3000.0])

    def one(broker: Broker, name: str, scale: float) -> dict[str, float]:
        rate = 1000.0 if broker.name == "before" else next(left)
        if rate is None:
            raise RunFailed("hung up")
        return {"rate": rate, CPU: 1.0}

    monkeypatch.setattr(compare, "run_workload", one)
    brokers = [Broker("before", 1, 0), Broker("leveret", 2, 0)]
    results = compare.measure(AUTOACK, brokers, rounds=3, scale=1, first="before")
    ours = by_name(results)["leveret"]
    assert list(ours.rounds) == [1000.0, None, 3000.0]
    assert ours.to_first is not None
    assert ours.to_first.median == 2.0
    assert "    leveret: 1 × failed: hung up" in list(table_lines(results))


def test_two_installs_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--no-rabbitmq", "--rounds", "2", "--only", f"{AUTOACK},declares", "--scale", "0.02"]
    options = parse([*arguments, "--leveret", f"before={INSTALLED}"])
    results = run(options)
    assert [result.broker for result in results] == ["before", "leveret"] * 5
    assert all(result.spread for result in results)
    assert all(result.to_first for result in results if result.broker == "leveret" and result.figure != CPU)
    assert conclude(results, options) == 0
    out = capsys.readouterr().out
    assert "× before" in out
    assert "slower than before by more than 3%" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--leveret", "before=/nowhere"], "is not NAME=PROGRAM"),
        (["--leveret", f"leveret={INSTALLED}"], "give it another name"),
        (["--leveret", f"a={INSTALLED}", "--leveret", f"a={INSTALLED}"], "a name of its own"),
        (["--rounds", "0"], "at least 1"),
        (["--only", "nothing"], "no workload nothing"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert said in capsys.readouterr().err
