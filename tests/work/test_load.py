"""What counts as overload, and how many messages are in hand."""

import threading

import pytest

from leveret.work.load import InFlight, load_of_a_core, overloaded


@pytest.mark.parametrize(
    ("bound", "load", "refused"),
    [
        ({}, 1.0, False),
        ({}, 1.01, True),
        ({"Load": 2}, 1.99, False),
        ({"Load": 2}, 2.01, True),
        ({"Load": 0.5, "InFlight": 3}, 0.6, True),
        ({"InFlight": 3}, 99.0, False),
    ],
)
def test_load(bound: dict[str, float], load: float, refused: bool) -> None:
    assert overloaded(bound, lambda: load) is refused


def test_load_of_this_machine_is_a_number() -> None:
    assert load_of_a_core() >= 0
    assert overloaded({"Load": 1e9}) is False


def test_bound_is_kept_by_many_threads_and_nothing_is_lost() -> None:
    in_flight = InFlight()
    most: list[int] = []

    def work() -> None:
        for _ in range(2000):
            if in_flight.enter(3):
                most.append(in_flight.count)
                in_flight.leave()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_flight.count == 0
    assert most
    assert max(most) <= 3
