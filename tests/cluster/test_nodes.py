"""Three real nodes on loopback, with real nats-servers and clients: what is defined on one is on all, whatever ends."""

import contextlib
import random
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker, NackError
from tests.cluster.nodes import Node, all_agree, environment, nodes, until

HOME_TEXT = "home node 'n1' of durable queue '{}' in vhost '/' is down or inaccessible"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    with nodes(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def three(cluster: list[Node]) -> list[Node]:
    """All of them up and linked."""
    for node in cluster:
        if not node.is_running:
            node.begin()
            node.wait()
    until(lambda: all(all(one["running"] for one in node.get("/cluster")["nodes"]) for node in cluster), "linked nodes")
    return cluster


def exports(node: Node) -> Any:
    found = node.get("/definitions")
    return {kind: sorted(map(repr, found[kind])) for kind in found if isinstance(found[kind], list)}


def test_what_is_defined_on_one_is_on_all(three: list[Node]) -> None:
    first, second, third = three
    first.http("PUT", "/vhosts/v", {"description": "a vhost"})
    second.http("PUT", "/users/u", {"password": "p", "tags": "monitoring"})
    third.http("PUT", "/permissions/v/u", {"configure": ".*", "write": ".*", "read": ".*"})
    first.http("PUT", "/policies/%2f/bounded", {"pattern": "^q", "definition": {"max-length": 5}})
    with second.channel() as channel:
        channel.exchange_declare("x", "topic", durable=True)
    with third.channel() as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "x", "key")
    for node in three:
        assert "v" in node.names("vhosts")
        assert node.get("/permissions/v/u")["read"] == ".*"
        queue = node.get("/queues/%2f/q")
        assert (queue["policy"], queue["node"]) == ("bounded", "n3")
        assert [one["routing_key"] for one in node.get("/queues/%2f/q/bindings")] == ["q", "key"]
        node.connect(virtual_host="v", credentials=pika.PlainCredentials("u", "p")).close()
        assert [one["running"] for one in node.get("/nodes")] == [True] * 3
        assert node.get("/cluster-name") == {"name": "tests"}
        assert node.get("/overview")["cluster_name"] == "tests"
    # What nodes say of themselves is shown by all.
    until(lambda: first.get("/nodes/n3").get("os_pid") == third.get("/nodes/n3")["os_pid"], "statistics of another node")
    assert first.get("/nodes/n3")["mem_used"] > 0
    first.http("DELETE", "/users/u")
    first.http("DELETE", "/vhosts/v")
    assert all("u" not in node.names("users") and "v" not in node.names("vhosts") for node in three)
    assert all_agree(three)


def test_queue_is_used_on_its_own_node_only(three: list[Node]) -> None:
    first, second, _ = three
    with first.channel() as channel:
        channel.queue_declare("home", durable=True)
        channel.basic_publish("", "home", b"here")
        assert channel.basic_get("home", auto_ack=True)[2] == b"here"
    uses: tuple[Callable[[Any], object], ...] = (
        lambda channel: channel.basic_get("home"),
        lambda channel: channel.basic_consume("home", print),
        lambda channel: channel.queue_purge("home"),
        lambda channel: channel.queue_delete("home", if_unused=True),
    )
    for use in uses:
        with second.channel() as channel:
            with pytest.raises(ChannelClosedByBroker) as refused:
                use(channel)
            assert refused.value.reply_code == 404
            assert HOME_TEXT.format("home") in refused.value.reply_text
    for path in ("/queues/%2f/home/contents", "/queues/%2f/home?if-empty=true"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            second.http("DELETE", path)
    assert first.get("/aliveness-test/%2f") == second.get("/aliveness-test/%2f") == {"status": "ok"}
    with second.channel() as channel:
        # What is there and the same is answered, and a message that cannot come there is not confirmed.
        channel.queue_declare("home", durable=True)
        channel.confirm_delivery()
        with pytest.raises(NackError):
            channel.basic_publish("", "home", b"there")
        assert channel.queue_delete("home").method.message_count == 0
    assert all("home" not in node.names("queues") for node in three)


def test_queues_of_a_connection_go_with_it(three: list[Node]) -> None:
    first, second, third = three
    connection = first.connect()
    channel = connection.channel()
    exclusive = channel.queue_declare("", exclusive=True).method.queue
    assert exclusive.startswith("amq.gen-")
    channel.queue_declare("auto", auto_delete=True)
    tag = channel.basic_consume("auto", print)
    assert {exclusive, "auto"} <= set(third.names("queues"))
    with second.channel() as other, pytest.raises(ChannelClosedByBroker) as refused:
        other.queue_declare(exclusive, passive=True)
    assert refused.value.reply_code == 405
    channel.basic_cancel(tag)
    until(lambda: all("auto" not in node.names("queues") for node in three), "the end of an unused queue")
    connection.close()
    until(lambda: all(exclusive not in node.names("queues") for node in three), "the end of an exclusive queue")


def test_declaring_on_all_at_once_ends_with_the_same_everywhere(three: list[Node]) -> None:
    failures: list[BaseException] = []

    def work(node: Node, seed: int) -> None:
        chance = random.Random(seed)
        connection = node.connect()
        channel = connection.channel()
        for _ in range(100):
            queue, exchange = f"r{chance.randrange(8)}", f"e{chance.randrange(4)}"
            durable = chance.random() < 0.8
            act = chance.randrange(5)
            try:
                if act == 0:
                    channel.queue_delete(queue)
                elif act == 1:
                    channel.exchange_delete(exchange)
                elif act == 2:
                    channel.exchange_declare(exchange, "topic", durable=durable)
                    channel.queue_bind(queue, exchange, str(chance.randrange(3)))
                elif act == 3:
                    channel.queue_unbind(queue, exchange, str(chance.randrange(3)))
                else:
                    channel.queue_declare(queue, durable=durable)
            except ChannelClosedByBroker:
                channel = connection.channel()
            except BaseException as error:
                failures.append(error)
                return
        connection.close()

    threads = [threading.Thread(target=work, args=(node, seed)) for seed, node in enumerate(three)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    until(lambda: all_agree(three), "the same everywhere")
    assert exports(three[0]) == exports(three[1]) == exports(three[2])


def test_node_that_was_away_has_what_was_defined_meanwhile(three: list[Node]) -> None:
    first, second, third = three
    with third.channel() as channel:
        channel.queue_declare("of n3", durable=True)
        channel.queue_declare("gone with n3")
        channel.queue_declare("deleted meanwhile", durable=True)
    third.kill()
    with first.channel() as channel:
        channel.queue_declare("meanwhile", durable=True)
        channel.queue_delete("deleted meanwhile")
    second.http("PUT", "/vhosts/meanwhile", {})
    until(lambda: [one["running"] for one in first.get("/cluster")["nodes"]] == [True, True, False], "a lost node")
    third.begin()
    third.wait()
    assert {"of n3", "meanwhile"} <= set(third.names("queues"))
    assert not {"gone with n3", "deleted meanwhile"} & set(third.names("queues"))
    assert "meanwhile" in third.names("vhosts")
    until(lambda: all_agree(three), "the same everywhere")


def test_minority_answers_what_is_there_and_makes_nothing_new(three: list[Node]) -> None:
    first, second, third = three
    with first.channel() as channel:
        channel.queue_declare("there", durable=True)
        channel.basic_publish("", "there", b"before")
    second.kill()
    third.kill()
    blocked: list[str] = []
    connection = first.connect()
    connection.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
    channel = connection.channel()
    until(lambda: "cut off from the cluster" in first.log, "being cut off")
    assert channel.queue_declare("there", durable=True).method.queue == "there"
    assert channel.basic_get("there", auto_ack=True)[2] == b"before"
    with pytest.raises(ConnectionClosedByBroker) as refused:
        channel.queue_declare("new", durable=True)
    assert refused.value.reply_code == 541
    assert "nodes missing: n2, n3" in refused.value.reply_text
    publisher = first.connect()
    publisher.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
    publisher.channel().basic_publish("", "there", b"kept back")
    until(lambda: publisher.process_data_events(0) is None and blocked != [], "a publisher that is told")
    assert blocked == ["cut off from the cluster"]
    second.begin()
    third.begin()
    second.wait()
    third.wait()
    until(lambda: publisher.process_data_events(0) is None and "no longer cut off" in first.log, "healing")
    publisher.close()
    with first.channel() as channel:
        until(lambda: (channel.basic_get("there", auto_ack=True)[2] or b"") == b"kept back", "what was kept back")
        channel.queue_declare("new", durable=True)
    until(lambda: all_agree(three), "the same everywhere")
    assert "new" in third.names("queues")


def test_all_killed_and_started_again_have_what_they_had(three: list[Node]) -> None:
    first = three[0]
    with first.channel() as channel:
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("transient")
        channel.confirm_delivery()
        channel.basic_publish("", "kept", b"message", pika.BasicProperties(delivery_mode=2))
    for node in three:
        node.kill()
    for node in three:
        node.begin()
    for node in three:
        node.wait()
    until(lambda: all_agree(three), "the same everywhere")
    for node in three:
        assert "kept" in node.names("queues")
        assert "transient" not in node.names("queues")
    with first.channel() as channel:
        assert channel.basic_get("kept", auto_ack=True)[2] == b"message"
        channel.queue_delete("kept")


@pytest.mark.parametrize(
    ("name", "cluster_name", "secret", "text"),
    [
        ("n4", "tests", "another", "does not have the secret of the cluster 'tests'"),
        ("n4", "another", "hush", "is in the cluster"),
        ("n1", "tests", "hush", "there is a node 'n1' in the cluster 'tests' already"),
    ],
    ids=["another secret", "another cluster", "a name in use"],
)
def test_who_does_not_belong_does_not_start(
    three: list[Node], tmp_path: Path, name: str, cluster_name: str, secret: str, text: str
) -> None:
    before = [node.log.count(text) for node in three]
    node = Node(tmp_path / "joiner", name, cluster_name, secret)
    node.joins = [one.address for one in three]
    node.begin()
    assert node.returncode() == 1
    assert text in node.log
    assert "cannot join the cluster" in node.log
    node.stop()
    after = [one.log.count(text) for one in three]
    assert all(now - then <= 1 for now, then in zip(after, before, strict=True))
    assert [len(one.get("/cluster")["nodes"]) for one in three] == [3, 3, 3]


def test_later_node_takes_what_is_there_and_can_be_forgotten(three: list[Node], tmp_path: Path) -> None:
    first = three[0]
    fourth = Node(tmp_path / "n4", "n4")
    fourth.joins = [three[1].address]
    fourth.begin()
    try:
        fourth.wait()
        assert "took the definitions of node 'n2'" in fourth.log
        until(lambda: all_agree([*three, fourth]), "the same everywhere")
        with fourth.channel() as channel:
            channel.queue_declare("of n4", durable=True)
        assert "of n4" in first.names("queues")
        assert "must be stopped" in leveretctl(first, "forget_cluster_node", "n4", status=1)
    finally:
        fourth.stop()
    until(lambda: not first.get("/nodes/n4")["running"], "its end")
    assert "n4" in leveretctl(first, "cluster_status")
    leveretctl(first, "forget_cluster_node", "n4")
    for node in three:
        assert "of n4" not in node.names("queues")
        assert [one["name"] for one in node.get("/cluster")["nodes"]] == [
            node.name,
            *sorted({"n1", "n2", "n3"} - {node.name}),
        ]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        first.http("DELETE", "/cluster/nodes/n4")
    assert all_agree(three)


def leveretctl(node: Node, *words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(node.folder / "data"), *words]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment())
    assert (found.returncode != 0) == (status != 0), found.stdout + found.stderr
    return found.stdout + found.stderr


def test_node_that_was_in_a_cluster_starts_in_no_other_way(three: list[Node]) -> None:
    third = three[2]
    third.stop()
    for flags, text in (
        (["--port", "0"], "the data folder is that of a node of a cluster"),
        (
            ["--cluster", "tests", "--node", "n5", "--secret-file", str(third.secret_file)],
            "is of node 'n3' of cluster 'tests'",
        ),
    ):
        command = [sys.executable, "-m", "leveret", "--data-dir", str(third.folder / "data"), *flags]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment())
        assert found.returncode == 1
        assert text in found.stderr


def test_definitions_are_imported_for_all(three: list[Node]) -> None:
    first, second, third = three
    queues = [
        {"name": f"i{number}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for number in range(20)
    ]
    second.http("POST", "/definitions", {"queues": queues, "users": [{"name": "i", "password_hash": "", "tags": ""}]})
    for node in (first, third):
        assert {one["name"] for one in queues} <= set(node.names("queues"))
        assert "i" in node.names("users")
    with pytest.raises(AMQPError):
        third.connect(credentials=pika.PlainCredentials("i", "x"))
    assert all_agree(three)


def test_nodes_that_are_killed_while_all_declare_end_the_same(three: list[Node]) -> None:
    ended = threading.Event()
    counts = dict.fromkeys((node.name for node in three), 0)

    def work(node: Node, seed: int) -> None:
        chance = random.Random(seed)
        while not ended.is_set():
            # Its node is gone, or a method was refused.
            with contextlib.suppress(AMQPError), node.channel() as channel:
                while not ended.is_set():
                    name = f"k{chance.randrange(10)}"
                    act = chance.choice((channel.queue_delete, channel.queue_declare, channel.exchange_declare))
                    act(name)
                    channel.queue_declare("", exclusive=True)
                    counts[node.name] += 1

    threads = [threading.Thread(target=work, args=(node, seed)) for seed, node in enumerate(three)]
    for thread in threads:
        thread.start()
    try:
        for killed in (three[:1], three[1:2], three[1:], three[2:]):
            before = dict(counts)
            for node in killed:
                node.kill()
            for node in killed:
                node.begin()
            for node in killed:
                node.wait()
            until(lambda before=before: all(counts[name] > before[name] for name in counts), "work on all")  # type: ignore[misc]
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    until(lambda: all_agree(three), "the same everywhere")
    until(lambda: not any(name.startswith("amq.gen-") for name in three[0].names("queues")), "the end of exclusive queues")
    assert exports(three[0]) == exports(three[1]) == exports(three[2])


def test_node_that_waits_for_others_can_be_stopped(tmp_path: Path) -> None:
    node = Node(tmp_path / "alone", "n1")
    node.joins = [node.address, "127.0.0.1:1", "127.0.0.1:2"]
    node.begin()
    until(lambda: node.link_port > 0 and (node.folder / "data" / "cluster.json").exists(), "its start")
    node.stop()
    assert "Traceback" not in node.log
