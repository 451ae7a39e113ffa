"""A stream as a log: who may append, what is known after a fault, and what is never taken for the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.support import CUT, CUT_BEFORE, LOSE, LOSE_ANSWER, NOT_FOUND, REFUSE, Proxy, new_name

from leveret.cluster.engine import Engine
from leveret.cluster.nats import Address, Client, Down, Fault, Unknown
from leveret.cluster.seen import EVERY, Seen
from leveret.cluster.stream import EPOCH, Deposed, Lost, Missing, Stream

SHORT_S = 0.3


@contextmanager
def opened(address: Address, name: str, **options: Any) -> Iterator[Stream]:
    stream = Stream(address, name, **options)
    try:
        yield stream
    finally:
        stream.close()


def contents(stream: Stream) -> list[bytes]:
    return [message.payload for message in stream.read_on()]


@pytest.fixture
def name(engine: Engine) -> str:
    """A stream that has been made."""
    name = new_name()
    with opened(engine.address, name) as stream:
        stream.create(storage="memory")
    return name


@pytest.fixture
def stream(engine: Engine, name: str) -> Iterator[Stream]:
    """The stream with its first leader."""
    with opened(engine.address, name) as stream:
        assert contents(stream) == []
        assert stream.begin_epoch("n1")
        yield stream


def test_what_is_appended_is_read_by_others_in_order(stream: Stream, engine: Engine) -> None:
    """SPEC §11.2: who reads on knows of everything up to the tail."""
    for number in range(300):
        assert stream.append({"N": str(number)}, b"%d" % number) == number + 2
    with opened(engine.address, stream.name) as other:
        assert contents(other) == [b"", *(b"%d" % number for number in range(300))]
        assert (other.last_seq, other.epoch) == (301, 1)
        assert contents(other) == []
        stream.append({}, b"more")
        assert contents(other) == [b"more"]


def test_messages_are_read_by_their_sequence(stream: Stream) -> None:
    """SPEC §11.2: in any order, by one or many."""
    for number in range(600):
        stream.append({}, b"%d" % number)
    for seq in (2, 3, 4, 600, 5, 601, 2):
        assert stream.read(seq) == b"%d" % (seq - 2)
    stream.purge(3)
    with pytest.raises(Missing):
        stream.read(1)


# The fence


def test_epoch_is_refused_to_whom_does_not_know_the_newest_message(stream: Stream, engine: Engine) -> None:
    """SPEC §11.3: one leader for an epoch; who is refused reads on, and may try again."""
    with opened(engine.address, stream.name) as other:
        contents(other)
        stream.append({}, b"newer")
        assert not other.begin_epoch("n2")
        assert (other.epoch, other.failed) == (1, None)
        assert contents(other) == [b"newer"]
        assert other.begin_epoch("n2")
        assert other.epoch == 2
        assert other.append({}, b"theirs") == 4


def test_deposed_leader_appends_nothing_any_more(stream: Stream, engine: Engine) -> None:
    """SPEC §11.3: what it had in its hands is stored nowhere."""
    stream.append({}, b"mine")
    with opened(engine.address, stream.name) as other:
        contents(other)
        assert other.begin_epoch("n2")
        for _ in range(2):
            with pytest.raises(Deposed):
                stream.append({}, b"too late")
        with pytest.raises(Deposed):
            stream.purge(2)
        with pytest.raises(Deposed):
            stream.begin_epoch("n1")
        other.append({}, b"theirs")
    with opened(engine.address, stream.name) as third:
        assert contents(third) == [b"", b"mine", b"", b"theirs"]


def test_epoch_is_known_from_each_message(stream: Stream, engine: Engine) -> None:
    """SPEC §11.3: what told of it first may have been purged."""
    stream.append({}, b"x")
    stream.append({}, b"y")
    stream.purge(3)
    with opened(engine.address, stream.name) as other:
        assert [(message.seq, message.headers[EPOCH]) for message in other.read_on()] == [(3, "1")]
        assert other.begin_epoch("n2")
        assert other.epoch == 2


# Outcomes that are not known


@pytest.fixture
def shaky(engine: Engine, name: str, proxy: Proxy) -> Iterator[Stream]:
    """A leader whose connection goes through the proxy."""
    with opened(proxy.address, name) as stream:
        stream._writer.timeout_s = stream._reader.timeout_s = SHORT_S
        contents(stream)
        assert stream.begin_epoch("n1")
        proxy.subjects.clear()
        yield stream


@pytest.mark.parametrize("what", [LOSE, LOSE_ANSWER, CUT, CUT_BEFORE])
@pytest.mark.parametrize("times", [1, 3])
def test_lost_ack_stores_once_and_the_tail_is_read_before(
    shaky: Stream, proxy: Proxy, engine: Engine, what: str, times: int
) -> None:
    """SPEC §11.3: an append whose outcome is not known is stored once, neither lost nor twice."""
    proxy.once("leveret.log.", what, times)
    assert shaky.append({}, b"x") == 2
    appends = [number for number, subject in enumerate(proxy.subjects) if subject.startswith("leveret.log.")]
    for before, after in pairwise(appends):
        assert any("STREAM.INFO" in subject for subject in proxy.subjects[before:after])
    assert len(appends) == (times + 1 if what in (LOSE, CUT_BEFORE) else 1)
    assert shaky.append({}, b"y") == 3
    with opened(engine.address, shaky.name) as other:
        assert contents(other) == [b"", b"x", b"y"]


def test_refusal_with_nothing_in_the_way_is_none(shaky: Stream, proxy: Proxy) -> None:
    """SPEC §11.3: a server that was just elected may not have stored all that it was given; that deposes nobody."""
    proxy.once("leveret.log.", REFUSE, 3)
    assert shaky.append({}, b"x") == 2
    assert shaky.append({}, b"y") == 3
    shaky._patience_s = SHORT_S
    proxy.rule = lambda subject: REFUSE if "leveret.log." in subject else "pass"
    with pytest.raises(Deposed):
        shaky.append({}, b"z")


def test_lost_ack_of_an_epoch_is_no_refusal(engine: Engine, name: str, proxy: Proxy) -> None:
    """SPEC §11.3: a leader knows that it is one, though it was not told."""
    with opened(proxy.address, name) as stream:
        contents(stream)
        stream._writer.timeout_s = SHORT_S
        proxy.once("leveret.log.", LOSE_ANSWER)
        assert stream.begin_epoch("n1")
        assert stream.append({}, b"x") == 2


def test_lost_append_behind_which_another_leads_is_deposed(shaky: Stream, proxy: Proxy, engine: Engine) -> None:
    """SPEC §11.3: the tail is another's, so nothing is appended again."""
    other = Stream(engine.address, shaky.name)
    taken: list[bool] = []

    def rule(subject: str) -> str:
        if subject.startswith("leveret.log.") and not taken:
            contents(other)
            taken.append(other.begin_epoch("n2"))
            return LOSE
        return "pass"

    proxy.rule = rule
    with pytest.raises(Deposed):
        shaky.append({}, b"x")
    assert taken == [True]
    assert [subject for subject in proxy.subjects if subject.startswith("leveret.log.")] == [f"leveret.log.{shaky.name}"]
    with opened(engine.address, shaky.name) as third:
        assert contents(third) == [b"", b""]
    other.close()


def test_late_arrival_of_an_append_that_was_given_up_counts_once(shaky: Stream, proxy: Proxy, engine: Engine) -> None:
    """SPEC §11.3: the tail does not have it yet, it is appended again, and one of both is refused."""
    late = Client(engine.address)
    head = {"Leveret-Epoch": "1", "Leveret-Writer": shaky._writer_id}
    arrived: list[int] = []

    def rule(subject: str) -> str:
        if subject.startswith("leveret.log."):
            if not arrived:
                arrived.append(0)
                return LOSE
            # Now the first one arrives, before the second.
            arrived.append(late.append(shaky.subject, head, b"x", 1))
            proxy.rule = lambda subject: "pass"
        return "pass"

    proxy.rule = rule
    assert shaky.append({}, b"x") == 2
    assert arrived == [0, 2]
    assert shaky.append({}, b"y") == 3
    late.close()
    with opened(engine.address, shaky.name) as other:
        assert contents(other) == [b"", b"x", b"y"]


@pytest.mark.parametrize("what", [LOSE, LOSE_ANSWER])
def test_outcome_that_stays_unknown_ends_the_writer(engine: Engine, name: str, proxy: Proxy, what: str) -> None:
    """SPEC §11.3: it is not said to be stored, and nothing is appended behind it."""
    with opened(proxy.address, name, patience_s=SHORT_S) as stream:
        stream._writer.timeout_s = SHORT_S
        contents(stream)
        assert stream.begin_epoch("n1")
        proxy.rule = lambda subject: what
        for _ in range(2):
            with pytest.raises(Unknown):
                stream.append({}, b"x")
        proxy.rule = lambda subject: "pass"
        with pytest.raises(Unknown):
            stream.append({}, b"y")


def test_server_that_is_away_for_a_while_is_waited_for(shaky: Stream, proxy: Proxy) -> None:
    """SPEC §11.3: an election, or a restart, is no end."""
    proxy.once("", CUT_BEFORE, 5)
    assert shaky.append({}, b"x") == 2


def test_giving_up_ends_all_waiting(engine: Engine, name: str, proxy: Proxy) -> None:
    """SPEC §11.3: a node that stops does not wait for a server that does not answer."""
    stream = Stream(proxy.address, name)
    contents(stream)
    stream._writer.timeout_s = SHORT_S
    proxy.rule = lambda subject: LOSE
    stream._given_up.set()
    with pytest.raises(Unknown):
        stream.begin_epoch("n1")
    stream.close()


# Replicas that lag


@pytest.mark.parametrize("times", [1, 8])
def test_what_must_be_there_is_asked_for_again(stream: Stream, proxy: Proxy, times: int) -> None:
    """SPEC §11.2: a replica that lags answers 404 of what is committed."""
    for number in range(3):
        stream.append({}, b"%d" % number)
    with opened(proxy.address, stream.name) as other:
        proxy.once("DIRECT.GET", NOT_FOUND, times)
        assert contents(other) == [b"", b"0", b"1", b"2"]
        proxy.once("DIRECT.GET", NOT_FOUND, times)
        assert other.read(3) == b"1"


def test_what_is_nowhere_is_missing_and_asked_for_once(stream: Stream, proxy: Proxy) -> None:
    """SPEC §11.3: a hole is said, not passed over, and nobody waits for it twice."""
    stream.append({}, b"x")
    with opened(proxy.address, stream.name, lag_s=SHORT_S) as other:
        proxy.rule = lambda subject: NOT_FOUND if "DIRECT.GET" in subject else "pass"
        for _ in range(2):
            with pytest.raises(Missing, match="message 2 is missing"):
                other.read(2)
        asked = len(proxy.subjects)
        with pytest.raises(Missing):
            other.read(2)
        assert len(proxy.subjects) == asked


def test_hole_is_said_and_the_rest_is_read(client: Client, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §11.3: messages that none of the replicas has are named."""
    name = new_name()
    client.ask_jetstream(
        f"STREAM.CREATE.{name}", name=name, subjects=[f"leveret.log.{name}"], storage="memory", allow_direct=True
    )
    for number in range(4):
        client.append(f"leveret.log.{name}", {}, b"%d" % number, number)
    client.ask_jetstream(f"STREAM.MSG.DELETE.{name}", seq=2, no_erase=True)
    with opened(engine.address, name, lag_s=SHORT_S) as stream:
        assert contents(stream) == [b"0", b"2", b"3"]
    assert f"{name}: message 2 of 4 is missing" in caplog.text


def test_what_is_purged_while_it_is_read_is_not_waited_for(stream: Stream, engine: Engine) -> None:
    """SPEC §11.2: whoever leads may remove the oldest file."""
    for number in range(600):
        stream.append({}, b"%d" % number)
    with opened(engine.address, stream.name) as other:
        reading = other.read_on()
        assert next(reading).seq == 1
        stream.purge(550)
        seqs = [message.seq for message in reading]
        assert seqs[len(seqs) - 52 :] == list(range(550, 602))
        assert (other.first_seq, other.last_seq, other.epoch) == (550, 601, 1)


# Streams that are not to be taken


def test_missing_stream_is_not_made_anew(engine: Engine, client: Client) -> None:
    """SPEC §11.3: a log that is gone is said to be, and stays so."""
    with opened(engine.address, new_name(), lag_s=SHORT_S) as stream:
        with pytest.raises(Lost, match="is missing"):
            contents(stream)
        with pytest.raises(Fault):
            client.ask_jetstream(f"STREAM.INFO.{stream.name}")


@pytest.mark.parametrize(("seen", "fits"), [(3, True), (4, False)])
def test_stream_that_is_shorter_than_it_was_seen_is_not_taken(
    stream: Stream, engine: Engine, tmp_path: Path, seen: int, fits: bool
) -> None:
    """SPEC §11.3: what was there once must be there."""
    Seen(tmp_path / "seen").write(seen)
    stream.append({}, b"x")
    stream.append({}, b"y")
    with opened(engine.address, stream.name, seen=Seen(tmp_path / "seen"), lag_s=SHORT_S) as other:
        if fits:
            assert len(contents(other)) == 3
        else:
            with pytest.raises(Lost, match="ends at 3, and was seen to reach 4"):
                contents(other)


def test_how_far_it_reaches_is_known_over_a_restart(engine: Engine, name: str, tmp_path: Path) -> None:
    """SPEC §11.3: when all is read, and every so many messages."""
    file = tmp_path / "group" / "seen"
    with opened(engine.address, name, seen=Seen(file)) as stream:
        contents(stream)
        assert Seen(file).seq == 0
        assert stream.begin_epoch("n1")
        for _ in range(EVERY + 10):
            stream.append({}, b"x")
    assert Seen(file).seq == EVERY
    with opened(engine.address, name, seen=Seen(file)) as stream:
        contents(stream)
    assert Seen(file).seq == EVERY + 11
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("")
    assert Seen(file).seq == 0


@pytest.mark.parametrize("again", [True, False])
def test_stream_that_is_deleted_under_its_leader_ends_it(stream: Stream, client: Client, again: bool) -> None:
    """SPEC §11.3: also where somebody has made it anew."""
    stream.append({}, b"x")
    stream._lag_s = stream._patience_s = SHORT_S
    client.ask_jetstream(f"STREAM.DELETE.{stream.name}")
    if again:
        stream.create(storage="memory")
    with pytest.raises((Lost, Down)):
        stream.append({}, b"y")
    with pytest.raises((Lost, Down)):
        stream.append({}, b"z")
