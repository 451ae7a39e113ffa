"""Whose a data folder is, and what a node must have to be one of a cluster."""

from pathlib import Path

import pytest

from leveret.broker.broker import default_broker
from leveret.cluster.identity import FILE_NAME, OtherNode, take_identity, write_identity
from leveret.cluster.members import Member
from leveret.cluster.surroundings import address_of, secret_of
from leveret.definitions.queue import restore, restore_transient
from leveret.server.cluster_settings import CannotJoin, ClusterSettings


def test_node_keeps_its_id_and_counts_its_runs(tmp_path: Path) -> None:
    first = take_identity(tmp_path, "c", "n1")
    assert first.incarnation == 1
    other = Member("n2", "id", "host", 1, 2)
    first.others.append(other)
    write_identity(tmp_path, first)
    again = take_identity(tmp_path, "c", "n1")
    assert (again.id, again.incarnation, again.others) == (first.id, 2, [other])
    assert take_identity(tmp_path / "elsewhere", "c", "n1").id != first.id
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("cluster", "node"), [("d", "n1"), ("c", "n2")])
def test_folder_of_another_node_is_refused(tmp_path: Path, cluster: str, node: str) -> None:
    write_identity(tmp_path, take_identity(tmp_path, "c", "n1"))
    with pytest.raises(OtherNode, match="is of node 'n1' of cluster 'c'"):
        take_identity(tmp_path, cluster, node)


def test_damaged_file_is_no_new_node(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(OtherNode, match="is damaged"):
        take_identity(tmp_path, "c", "n1")


def test_secret_is_what_is_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    settings = ClusterSettings("c", secret_file=str(file))
    with pytest.raises(CannotJoin, match="No such file"):
        secret_of(settings)
    file.write_text(" \n")
    with pytest.raises(CannotJoin, match="is empty"):
        secret_of(settings)
    file.write_text("hush\n")
    assert secret_of(settings) == b"hush"
    with pytest.raises(CannotJoin, match="--secret-file"):
        secret_of(ClusterSettings("c"))


@pytest.mark.parametrize(("text", "address"), [("host:5", ("host", 5)), ("[::1]:5", ("::1", 5))])
def test_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


def test_queue_that_is_old_is_not_unused_for_as_long() -> None:
    """Its node was started again: that is when x-expires begins anew, as without a cluster."""
    broker = default_broker()
    broker.work.budget.now = 10_000
    row = {"auto_delete": False, "exclusive": False, "arguments": {"x-expires": 500}, "home": "n1", "at": 1000}
    broker.settings.node_name = "n1"
    restore(broker, "/", "durable", dict(row))
    restore_transient(broker, "/", "transient", dict(row))
    queues = broker.vhosts["/"].queues
    assert broker.now == 10_000
    assert [queue.created_at for queue in queues.values()] == [1000, 1000]
    for now, left in ((10_499, 2), (10_500, 0)):
        broker.work.budget.now = now
        broker.work.budget.begin()
        broker.timers.run(now, 10)
        broker.work.drain()
        assert len(queues) == left
