"""A data folder that a version before has left is opened by this one."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.server.support import Client, InProcess

from leveret.server.config import Config
from leveret.wire import spec

Q_ARGUMENTS = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "a.b"}


def get_all(client: Client, queue: str) -> list[bytes]:
    """The bodies of all that is ready."""
    bodies = []
    count = client.declare(queue, passive=True)
    for _ in range(count):
        client.call(spec.BasicGet(queue, no_ack=True), spec.BasicGetOk)
        client.frame()
        bodies.append(client.frame()[2])
    return bodies


def test_folder_of_a_killed_broker_of_format_3_opens(tmp_path: Path) -> None:
    """SPEC §8.9: nothing that was answered is lost.

    To q went 0 to 4; 0 was acknowledged, 1 rejected to where p has it, 2 given back; a transaction's message came behind.
    """
    with zipfile.ZipFile(Path(__file__).with_name("format_3.zip")) as archive:
        archive.extractall(tmp_path)
    with InProcess(Config(port=0, data_dir=str(tmp_path))) as node, node.login() as client:
        assert get_all(client, "q") == [b"2", b"3", b"4", b"of a transaction"]
        # By priority; the binding that led there is still there, too.
        assert get_all(client, "p") == [b"high", b"low", b"1"]
        client.call(spec.QueueUnbind("p", "x", "a.#"), spec.QueueUnbindOk)
        assert client.declare("end", passive=True) == 0
        assert client.declare("q", durable=True, arguments=Q_ARGUMENTS) == 0
