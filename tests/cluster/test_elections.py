"""Which server leads a stream: asked, heard of, and moved to where it is wanted."""

from collections.abc import Iterator
from contextlib import closing
from time import monotonic, sleep

import msgspec
import pytest
from tests.cluster.leader import new_log
from tests.cluster.support import new_name

from leveret.cluster.engine import Engine
from leveret.cluster.nats import Client, Fault
from leveret.cluster.stream import LEADER_ELECTED, Stream

PATIENCE_S = 120.0


class Elected(msgspec.Struct):
    """What the advisory says."""

    leader: str


@pytest.fixture
def stream(three: list[Engine]) -> Iterator[Stream]:
    name = new_name()
    new_log(three[0], name, replicas=3)
    with closing(Stream(three[1].address, name)) as stream:
        yield stream


def test_servers_of_a_stream_are_known(stream: Stream) -> None:
    """SPEC §11.2: its copies are on the nodes of its set."""
    found = stream.placed()
    assert {found.leader, *(replica.name for replica in found.replicas)} == {"n1", "n2", "n3"}


def test_one_without_others_leads(engine: Engine) -> None:
    """SPEC §11.4: of its own streams."""
    name = new_name()
    new_log(engine, name)
    with closing(Stream(engine.address, name)) as stream:
        assert (stream.placed().leader, stream.placed().replicas) == ("n1", [])


def test_stream_is_moved_and_that_is_heard_while_it_is_appended_to(stream: Stream, three: list[Engine]) -> None:
    """SPEC §11.3: a writer goes on in its epoch, whichever server leads."""
    list(stream.read_on())
    assert stream.begin_epoch("n1")
    with closing(Client(three[2].address)) as listener:
        listener.listen(f"{LEADER_ELECTED}.{stream.name}")
        for number in range(6):
            wanted = sorted(replica.name for replica in stream.placed().replicas)[number % 2]
            stream.move_to(wanted)
            stream.append({}, b"%d" % number)
            heard = listener.hear(PATIENCE_S)
            assert heard is not None
            assert msgspec.json.decode(heard.payload, type=Elected).leader == wanted
            deadline = monotonic() + PATIENCE_S
            while stream.placed().leader != wanted:
                assert monotonic() < deadline
                sleep(0.01)
    assert stream.epoch == 1
    with closing(Stream(three[0].address, stream.name)) as other:
        assert [message.payload for message in other.read_on()] == [b"", *(b"%d" % number for number in range(6))]


def test_server_that_does_not_have_it_is_refused(stream: Stream) -> None:
    """SPEC §11.3: leadership goes to a node of the set only."""
    with pytest.raises(Fault):
        stream.move_to("n9")
