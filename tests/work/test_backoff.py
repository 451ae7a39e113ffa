"""How long is waited before a connection, or a message that failed, is tried again; time is a number here."""

from typing import Any

import pytest

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties, encode_properties
from leveret.work import Message
from leveret.work.backoff import COUNTED_MAX, FailureCounts, ReconnectBackoff, RefusalBackoff, requeue_delay_s
from leveret.work.run_once import RecordingChannel


def test_delays_double_up_to_five_minutes() -> None:
    """SPEC §10: 2 s up to 300 s; without an end if that is asked for."""
    backoff = ReconnectBackoff(120_000, attempts=0, chance=lambda: 0.0)
    delays = [backoff.delay_s(0.0) for _ in range(2000)]
    assert delays[:9] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(delays[9:]) == {300}


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.999])
def test_jitter_adds_a_fifth_at_most(chance: float) -> None:
    backoff = ReconnectBackoff(120_000, attempts=0, chance=lambda: chance)
    for wanted in (2, 4, 8, 16, 32, 64, 128):
        delay_s = backoff.delay_s(0.0)
        assert delay_s == pytest.approx(wanted * (1 + 0.2 * chance))
        assert delay_s is not None
        assert wanted <= delay_s <= 1.2 * wanted


def test_jitter_differs_by_itself() -> None:
    assert len({ReconnectBackoff(1000).delay_s(0.0) for _ in range(20)}) > 1


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_so_many_failures_in_a_row_are_the_end(attempts: int) -> None:
    """SPEC §10: after 5 in a row, a setting, the thread ends."""
    backoff = ReconnectBackoff(120_000, attempts, chance=lambda: 0.0)
    delays = [backoff.delay_s(0.0) for _ in range(attempts)]
    assert delays == [2.0 * 2**n for n in range(attempts - 1)] + [None]


def test_five_is_the_default() -> None:
    backoff = ReconnectBackoff(120_000)
    assert [backoff.delay_s(0.0) is None for _ in range(5)] == [False] * 4 + [True]


def test_longer_listening_is_no_failure_and_counts_anew() -> None:
    """SPEC §10: MinListenTime; what ended sooner is a failure."""
    backoff = ReconnectBackoff(120_000, chance=lambda: 0.0)
    assert [backoff.delay_s(119.9) for _ in range(4)] == [2, 4, 8, 16]
    assert backoff.delay_s(120.0) == 0
    assert backoff.failures == 0
    assert [backoff.delay_s(1.0) for _ in range(5)] == [2, 4, 8, 16, None]


def test_pauses_double_from_100_ms_to_5_s() -> None:
    """SPEC §10: after refusing for load."""
    backoff = RefusalBackoff()
    assert [round(backoff.next_s(), 3) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    backoff.reset()
    assert backoff.next_s() == 0.1


def message(body: bytes = b"", redelivered: bool = True, **properties: Any) -> Message:
    octets = encode_properties(Properties(**properties))
    return Message(Delivery(1, redelivered, "x", "k", octets, body), None, RecordingChannel([]))


def test_pause_doubles_up_to_a_minute() -> None:
    """SPEC §10."""
    assert [requeue_delay_s(count) for count in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]
    assert [requeue_delay_s(count) for count in (10, 11, 12, 100_000)] == [51.2, 60.0, 60.0, 60.0]


def test_failures_are_counted_by_message() -> None:
    """SPEC §10: by its id, or else by all of it."""
    failures = FailureCounts()
    assert [failures.add(message(b"one")) for _ in range(3)] == [1, 2, 3]
    assert failures.add(message(b"two")) == 1
    assert failures.add(message(b"one", correlation_id="c")) == 1
    assert [failures.add(message(body, message_id="m")) for body in (b"one", b"two")] == [1, 2]
    failures.forget(message(b"one"))
    assert failures.add(message(b"one")) == 1


def test_message_that_is_like_another_one_begins_at_one() -> None:
    """SPEC §10: and does not take away what the other one has behind it."""
    failures = FailureCounts()
    assert [failures.add(message(b"same")) for _ in range(3)] == [1, 2, 3]
    assert failures.add(message(b"same", redelivered=False)) == 1
    assert failures.add(message(b"same")) == 4


@pytest.mark.parametrize(("told", "counted"), [(3, 4), (0, 1), (-1, 1), ("3", 1), (True, 1)])
def test_count_of_the_queue_is_heeded(told: Any, counted: int) -> None:
    """SPEC §10: it knows of other processes."""
    assert FailureCounts().add(message(headers={"x-delivery-count": told})) == counted


def test_properties_that_cannot_be_read_are_no_obstacle() -> None:
    failures = FailureCounts()
    rubbish = Message(Delivery(1, True, "x", "k", b"\xff\xff", b""), None, RecordingChannel([]))
    assert [failures.add(rubbish) for _ in range(2)] == [1, 2]


def test_only_so_many_are_remembered() -> None:
    failures = FailureCounts()
    for number in range(COUNTED_MAX + 10):
        failures.add(message(b"%d" % number))
    assert len(failures._counts) == COUNTED_MAX
    assert failures.add(message(b"0")) == 1
    assert failures.add(message(b"%d" % COUNTED_MAX)) == 2
