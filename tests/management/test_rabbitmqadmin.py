"""RabbitMQ's own command line, rabbitmqadmin v1: every command, argument, format and option of it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pika
import pytest
from tests.management.amqp import connected, soon
from tests.management.support import Running, rabbitmqadmin
from tests.management.surface import Surface
from tests.server.support import PATIENCE
from tests.server.tls_support import Trust

from leveret.broker.password import hash_password

ADMIN = rabbitmqadmin()
SURFACE = Surface()
FORMATS = ("raw_json", "pretty_json", "tsv", "long", "table", "kvp", "bash")
# Those whose command has a kind of object.
VERBS = ("list", "show", "declare", "delete", "close", "purge")
SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}


class Admin:
    """The program; what is done with it is noted as `declare queue`, `declare queue durable=` and `--sort`."""

    def __init__(self, port: int, vhost: str | None, did: set[str], login: tuple[str, ...] = ()) -> None:
        self._login = login or ("--host", "127.0.0.1", "--port", str(port))
        self._vhost = () if vhost is None else ("--vhost", vhost)
        self._did = did
        self.port = port

    def run(self, *words: str, options: tuple[str, ...] = (), fails: bool = False, given: str = "") -> str:
        given_options = [*self._login, *self._vhost, *options]
        command = [sys.executable, "-W", "ignore", str(ADMIN), *given_options, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, input=given)
        assert (done.returncode != 0) is fails, done
        if not fails:
            self._note([*given_options, *(word for word in words if word.startswith("--"))], words)
        return done.stdout + done.stderr

    def _note(self, options: list[str], words: tuple[str, ...]) -> None:
        self._did |= {option for option in options if option.startswith("--")}
        self._did |= {f"--format {value}" for option, value in pairwise(options) if option == "--format"}
        if words and not words[0].startswith("--"):
            command = " ".join(words[: 2 if words[0] in (*VERBS, "help") else 1])
            self._did |= {command, *(f"{command} {word.partition('=')[0]}=" for word in words if "=" in word)}

    def rows(self, *words: str) -> Any:
        """What `list` shows."""
        return json.loads(self.run("list", *words, options=("--format", "raw_json")))

    def column(self, kind: str, name: str = "name") -> list[Any]:
        return [one[name] for one in self.rows(kind, name)]

    def with_login(self, *login: str, vhost: str | None = None) -> "Admin":
        return Admin(self.port, vhost, self._did, login)


@pytest.fixture
def admin(broker: Running, vhost: str, request: pytest.FixtureRequest) -> Iterator[Admin]:
    with SURFACE.recorded(request) as did:
        yield Admin(broker.http_port, vhost, did)


def test_every_command_is_tried(broker: Running) -> None:
    """SPEC §9.1: all that rabbitmqadmin's own help names: commands, their arguments, formats, options."""
    admin = Admin(broker.http_port, None, set())
    wanted: set[str] = set()
    for line in admin.run("help", "subcommands").splitlines():
        words = line.split()
        if line[:2] != "  " or not words or words[0] not in (*VERBS, "export", "import", "publish", "get"):
            continue
        command = " ".join(words[: 2 if words[0] in VERBS else 1])
        wanted |= {command, *(f"{command} {name}=" for name in re.findall(r"([\w-]+)=\.\.\.", line))}
    options = admin.run("--help")
    wanted |= set(re.findall(r"--[a-z-]+", options)) - {"--help"}
    (formats,) = re.findall(r"one of \[([^]]*)\]", options)
    wanted |= {f"--format {name}" for name in re.split(r"[,\s]+", formats)}
    assert len(wanted) > 100
    assert sorted(wanted - SURFACE.covered) == []


# Looking


@SURFACE.covers(
    *(f"list {kind}" for kind in ("connections", "channels", "consumers", "exchanges", "queues", "bindings", "users")),
    *(f"list {kind}" for kind in ("vhosts", "permissions", "nodes", "parameters", "policies", "operator_policies")),
    "list vhost_limits",
    "show overview",
    "--depth",
)
def test_everything_is_listed(broker: Running, admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin's lists as it shows them by default, and with all columns"""
    admin.run("declare", "policy", "name=p", "pattern=^x", 'definition={"max-length": 5}')
    admin.run("declare", "operator_policy", "name=o", "pattern=^x", 'definition={"max-length": 5}')
    admin.run("declare", "parameter", "component=shovel", "name=s", f"value={json.dumps(SHOVEL)}")
    admin.run("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=5")
    with connected(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        tag = channel.basic_consume("q", lambda *_: None)
        (name,) = (one["name"] for one in admin.rows("connections", "name", "vhost") if one["vhost"] == vhost)
        for kind, shown in {
            "connections": f"| {name} | guest | 1 ",
            "channels": f"| {name} (1) | guest |",
            "consumers": f"| {tag} ",
            "exchanges": "| amq.topic          | topic   |",
            "queues": "| q    | 0        |",
            "bindings": "|        | q           | q           |",
            "users": "guest",
            "vhosts": f"| {vhost} ",
            "permissions": f"| {vhost} ",
            "nodes": "| disc ",
            "parameters": json.dumps(SHOVEL),
            "policies": '{"max-length": 5}',
            "operator_policies": '{"max-length": 5}',
            "vhost_limits": '{"max-queues": 5}',
        }.items():
            table = admin.run("list", kind)
            assert shown in table, (kind, table)
            assert "--------------------" in admin.run("list", kind, options=("--format", "long", "--depth", "3"))
    shown = admin.run("show", "overview")
    assert re.search(r"\| rabbitmq_version \|.*\| queue_totals.messages \| object_totals.queues \|", shown)
    assert "| 3.13.7 " in shown
    (whole,) = json.loads(admin.run("show", "overview", options=("--format", "raw_json")))
    assert whole["message_stats"].keys() >= {"publish", "publish_details", "deliver_get"}


@SURFACE.covers(*(f"--format {name}" for name in FORMATS), "--format", "--sort", "--sort-reverse", "--quiet", "list queues")
def test_lists_have_formats_columns_and_order(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin's formats, each of them to the letter"""
    for name, durable in (("one", "true"), ("two", "false")):
        admin.run("declare", "queue", f"name={name}", f"durable={durable}")
    admin.run("publish", "routing_key=one", "payload=x")
    words = ("list", "queues", "name", "messages", "backing_queue_status.len")
    rows = [
        {"name": name, "messages": count, "backing_queue_status": {"len": count}} for name, count in (("one", 1), ("two", 0))
    ]
    assert {name: admin.run(*words, options=("--format", name, "--sort", "name")) for name in FORMATS} == {
        "raw_json": json.dumps(rows, separators=(",", ":")) + "\n",
        "pretty_json": json.dumps(rows, indent=2, sort_keys=True) + "\n",
        "tsv": "name\tmessages\tbacking_queue_status.len\none\t1\t1\ntwo\t0\t0\n",
        "kvp": "".join(
            f'name="{name}" messages="{count}" backing_queue_status.len="{count}"\n'
            for name, count in (("one", 1), ("two", 0))
        ),
        "bash": "one two\n",
        "table": (
            "+------+----------+--------------------------+\n"
            "| name | messages | backing_queue_status.len |\n"
            "+------+----------+--------------------------+\n"
            "| one  | 1        | 1                        |\n"
            "| two  | 0        | 0                        |\n"
            "+------+----------+--------------------------+\n"
        ),
        "long": (
            f"\n{'-' * 80}\n\n                    name: one\n                messages: 1\nbacking_queue_status.len: 1\n"
            f"\n{'-' * 80}\n\n                    name: two\n                messages: 0\nbacking_queue_status.len: 0\n"
            f"\n{'-' * 80}\n\n"
        ),
    }
    for by, options, found in (
        ("messages", (), "two one\n"),
        ("messages", ("--sort-reverse",), "one two\n"),
        ("backing_queue_status.len", (), "two one\n"),
        ("name", ("--sort-reverse",), "two one\n"),
    ):
        assert admin.run("list", "queues", options=("--format", "bash", "--sort", by, *options)) == found
    assert admin.run("list", "queues", "name", options=("--format", "tsv", "--quiet", "--sort", "name")) == "one\ntwo\n"
    assert admin.run("declare", "queue", "name=three", options=("--quiet",)) == ""


@SURFACE.covers("--version", "--bash-completion")
def test_what_asks_no_broker(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin's own help"""
    assert admin.run("--version").startswith("rabbitmqadmin 3.")
    assert "complete -F _rabbitmqadmin" in admin.run("--bash-completion")
    assert "host_normal" in admin.run("help", "config")
    assert "For more help use the help subcommand" in admin.run("help")
    assert "Don't know how to list hares" in admin.run("list", "hares", fails=True)


# Making and deleting


@SURFACE.covers(
    *(f"declare exchange{argument}" for argument in ("", " name=", " type=", " auto_delete=", " durable=", " internal=")),
    *(f"declare queue{argument}" for argument in ("", " name=", " auto_delete=", " durable=", " arguments=", " node=")),
    *(f"declare binding{argument}" for argument in ("", " source=", " destination=", " destination_type=", " routing_key=")),
    "declare exchange arguments=",
    "declare queue queue_type=",
    "declare binding arguments=",
    *(f"delete {kind}{argument}" for kind in ("queue", "exchange") for argument in ("", " name=")),
    *(
        f"delete binding{argument}"
        for argument in ("", " source=", " destination=", " destination_type=", " properties_key=")
    ),
)
def test_queues_exchanges_and_bindings(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin's declare, list and delete of queues, exchanges and bindings."""
    (node,) = admin.column("nodes")
    words = ["auto_delete=true", "durable=false", 'arguments={"x-max-length": 5}', f"node={node}"]
    assert admin.run("declare", "queue", "name=q", *words) == "queue declared\n"
    assert "Node far@away could not be contacted" in admin.run("declare", "queue", "name=r", "node=far@away", fails=True)
    admin.run("declare", "queue", "name=r", "queue_type=quorum")
    columns = ("name", "durable", "auto_delete", "arguments", "type")
    facts = [{"name": "q", "durable": False, "auto_delete": True, "arguments": {"x-max-length": 5}, "type": "classic"}]
    facts += [
        {"name": "r", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}, "type": "quorum"}
    ]
    assert admin.rows("queues", *columns) == facts
    words = ["type=topic", "auto_delete=true", "durable=false", "internal=true"]
    words += ['arguments={"alternate-exchange": "amq.fanout"}']
    assert admin.run("declare", "exchange", "name=x", *words) == "exchange declared\n"
    (exchange,) = (one for one in admin.rows("exchanges", "name", "internal", "arguments") if one["name"] == "x")
    assert (exchange["internal"], exchange["arguments"]) == (True, {"alternate-exchange": "amq.fanout"})
    assert admin.run("declare", "binding", "source=x", "destination=q", "routing_key=a.#") == "binding declared\n"
    admin.run("declare", "binding", "source=x", "destination=q", 'arguments={"a": 1}')
    admin.run("declare", "binding", "source=x", "destination=amq.fanout", "destination_type=exchange")
    keys = {one["properties_key"]: one["destination"] for one in admin.rows("bindings") if one["source"] == "x"}
    assert (len(keys), keys["a.%23"], keys["~"]) == (3, "q", "amq.fanout")
    for key, destination in keys.items():
        kind = "queue" if destination == "q" else "exchange"
        words = ["source=x", f"destination={destination}", f"destination_type={kind}"]
        # `~`, which is a binding without a routing key, is what it takes by default.
        deleted = admin.run("delete", "binding", *words, *([] if key == "~" else [f"properties_key={key}"]))
        assert deleted == "binding deleted\n"
    assert {one["source"] for one in admin.rows("bindings")} == {""}
    # With its last binding the exchange is gone, which was to be deleted then.
    assert "Not found" in admin.run("delete", "exchange", "name=x", fails=True)
    admin.run("declare", "exchange", "name=x", "type=fanout")
    assert admin.run("delete", "exchange", "name=x") == "exchange deleted\n"
    assert admin.run("delete", "queue", "name=q") == admin.run("delete", "queue", "name=r") == "queue deleted\n"
    assert admin.rows("queues") == []


@SURFACE.covers(
    *(
        f"declare user{argument}"
        for argument in ("", " name=", " password=", " password_hash=", " tags=", " hashing_algorithm=")
    ),
    *(f"declare permission {name}=" for name in ("vhost", "user", "configure", "write", "read")),
    "declare permission",
    *(f"declare vhost{argument}" for argument in ("", " name=", " tracing=")),
    *(f"delete {kind}{argument}" for kind in ("user", "vhost") for argument in ("", " name=")),
    *(f"delete permission{argument}" for argument in ("", " vhost=", " user=")),
)
def test_users_rights_and_vhosts(broker: Running, admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin's users, permissions and vhosts"""
    assert admin.run("declare", "user", "name=ada", "password=secret", "tags=monitoring,management") == "user declared\n"
    hashing = "rabbit_password_hashing_sha512"
    hashed = hash_password(b"other", hashing=hashing)
    admin.run("declare", "user", "name=bob", f"password_hash={hashed}", f"hashing_algorithm={hashing}", "tags=management")
    assert [one["tags"] for one in admin.rows("users", "name", "tags") if one["name"] == "ada"] == [
        ["monitoring", "management"]
    ]
    assert broker.http("bob", "other").get("/api/whoami")["name"] == "bob"
    rights = ("configure=.*", "write=^w", "read=")
    assert admin.run("declare", "permission", f"vhost={vhost}", "user=ada", *rights) == "permission declared\n"
    granted = {"user": "ada", "vhost": vhost, "configure": ".*", "write": "^w", "read": ""}
    assert granted in admin.rows("permissions")
    assert admin.run("delete", "permission", f"vhost={vhost}", "user=ada") == "permission deleted\n"
    assert "ada" not in admin.column("permissions", "user")
    for user in ("ada", "bob"):
        assert admin.run("delete", "user", f"name={user}") == "user deleted\n"
    assert not {"ada", "bob"} & set(admin.column("users"))
    assert admin.run("declare", "vhost", "name=admin/made", "tracing=true") == "vhost declared\n"
    assert {"name": "admin/made", "tracing": True} in admin.rows("vhosts", "name", "tracing")
    assert admin.run("delete", "vhost", "name=admin/made") == "vhost deleted\n"
    assert "admin/made" not in admin.column("vhosts")


@SURFACE.covers(
    *(f"declare {kind}" for kind in ("policy", "operator_policy", "parameter", "vhost_limit")),
    *(
        f"declare {kind} {name}="
        for kind in ("policy", "operator_policy")
        for name in ("name", "pattern", "definition", "priority", "apply-to")
    ),
    *(f"declare parameter {name}=" for name in ("component", "name", "value")),
    *(f"declare vhost_limit {name}=" for name in ("vhost", "name", "value")),
    *(f"delete {kind}{argument}" for kind in ("policy", "operator_policy") for argument in ("", " name=")),
    *(f"delete parameter{argument}" for argument in ("", " component=", " name=")),
    *(f"delete vhost_limit{argument}" for argument in ("", " vhost=", " name=")),
)
def test_policies_parameters_and_limits(admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin's policies, operator policies, parameters and limits"""
    for kind, listed in (("policy", "policies"), ("operator_policy", "operator_policies")):
        words = ["name=p", "pattern=^q", 'definition={"max-length": 5}', "priority=2", "apply-to=queues"]
        assert admin.run("declare", kind, *words) == f"{kind} declared\n"
        found = [one for one in admin.rows(listed) if one["vhost"] == vhost]
        facts = {"vhost": vhost, "name": "p", "pattern": "^q", "definition": {"max-length": 5}}
        assert found == [{**facts, "priority": 2, "apply-to": "queues"}]
        assert admin.run("delete", kind, "name=p") == f"{kind} deleted\n"
        assert vhost not in admin.column(listed, "vhost")
    admin.run("declare", "parameter", "component=shovel", "name=s", f"value={json.dumps(SHOVEL)}")
    parameter = {"component": "shovel", "name": "s", "vhost": vhost, "value": SHOVEL}
    assert parameter in admin.rows("parameters")
    assert admin.run("delete", "parameter", "component=shovel", "name=s") == "parameter deleted\n"
    assert parameter not in admin.rows("parameters")
    admin.run("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=5")
    assert {"vhost": vhost, "value": {"max-queues": 5}} in admin.rows("vhost_limits")
    assert admin.run("delete", "vhost_limit", f"vhost={vhost}", "name=max-queues") == "vhost_limit deleted\n"
    assert vhost not in admin.column("vhost_limits", "vhost")


@SURFACE.covers("close connection", "close connection name=")
def test_connections_are_closed(broker: Running, admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin's close connection; its client hears why"""
    with connected(broker, vhost) as connection:
        (name,) = (one["name"] for one in admin.rows("connections", "name", "vhost") if one["vhost"] == vhost)
        assert admin.run("close", "connection", f"name={name}") == "connection closed\n"
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            soon(lambda: connection.process_data_events(0.1))
        assert (closed.value.reply_code, closed.value.reply_text) == (
            320,
            "CONNECTION_FORCED - Closed via management plugin",
        )
    assert "Not found" in admin.run("close", "connection", f"name={name}", fails=True)


# Messages


@SURFACE.covers(
    *(
        f"publish{argument}"
        for argument in ("", " routing_key=", " payload=", " properties=", " exchange=", " payload_encoding=")
    ),
    *(f"get{argument}" for argument in ("", " queue=", " count=", " ackmode=", " payload_file=", " encoding=")),
    "purge queue",
    "purge queue name=",
)
def test_messages_are_published_got_and_purged(admin: Admin, tmp_path: Path) -> None:
    """SPEC §9.1: rabbitmqadmin's publish, get with each way to acknowledge, and purge."""
    dead = 'arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}'
    admin.run("declare", "queue", "name=q", dead)
    admin.run("declare", "queue", "name=dead")
    assert admin.run("publish", "routing_key=q", "payload=one") == "Message published\n"
    properties = 'properties={"delivery_mode": 2, "headers": {"a": [1, "x"]}}'
    admin.run("publish", "exchange=amq.default", "routing_key=q", "payload=/w==", "payload_encoding=base64", properties)
    assert admin.run("publish", "routing_key=q", given="drei ü") == "Message published\n"
    assert admin.run("publish", "routing_key=nowhere", "payload=x") == "Message published but NOT routed\n"

    def got(*words: str) -> list[tuple[Any, ...]]:
        found = json.loads(admin.run("get", "queue=q", *words, options=("--format", "raw_json")))
        return [(one["payload"], one["payload_encoding"], one["redelivered"], one["message_count"]) for one in found]

    assert got() == [("one", "string", False, 2)]
    assert got("count=2", "ackmode=reject_requeue_true") == [("one", "string", True, 2), ("/w==", "base64", False, 1)]
    assert got("encoding=base64") == [("b25l", "base64", True, 2)]
    (_, second) = json.loads(admin.run("get", "queue=q", "count=2", options=("--format", "raw_json")))
    assert second["properties"] == {"delivery_mode": 2, "headers": {"a": [1, "x"]}}
    shown = admin.run("get", "queue=q", "ackmode=ack_requeue_false", f"payload_file={tmp_path / 'payload'}")
    assert (tmp_path / "payload").read_text() == "one"
    assert "| q           |          | 2             | 3             | True        |" in shown
    assert got("ackmode=reject_requeue_false") == [("/w==", "base64", True, 1)]
    assert {one["name"]: one["messages"] for one in admin.rows("queues", "name", "messages")} == {"dead": 1, "q": 1}
    assert "| drei ü  |" in admin.run("get", "queue=q")
    assert admin.run("purge", "queue", "name=q") == "queue purged\n"
    assert {one["name"]: one["messages"] for one in admin.rows("queues", "name", "messages")} == {"dead": 1, "q": 0}
    assert admin.run("get", "queue=q") == "No items\n"


# Definitions, and how it finds the broker


@SURFACE.covers("export", "import")
def test_definitions_are_exported_and_imported(broker: Running, admin: Admin, tmp_path: Path) -> None:
    """SPEC §9.2: rabbitmqadmin, all definitions and those of one vhost"""
    admin.run("declare", "queue", "name=kept")
    everything = admin.with_login("--host", "127.0.0.1", "--port", str(broker.http_port))
    for who, kind in ((everything, "vhosts"), (admin, "queues")):
        file = tmp_path / f"{kind}.json"
        assert who.run("export", str(file)) == f'Exported definitions for 127.0.0.1 to "{file}"\n'
        before = json.loads(file.read_text())
        assert before["rabbit_version"] == "3.13.7"
        assert "kept" in [queue["name"] for queue in before["queues"]]
        admin.run("delete", "queue", "name=kept")
        assert who.run("import", str(file)).startswith("Uploaded definitions")
        who.run("export", str(file))
        assert json.loads(file.read_text())[kind] == before[kind]
        assert admin.column("queues") == ["kept"]
    file.write_text("{")
    assert "failed_to_parse_json" in admin.run("import", str(file), fails=True)


@SURFACE.covers(
    *("--config", "--node", "--host", "--port", "--vhost", "--username", "--password", "--base-uri"),
    *("--path-prefix", "--request-timeout"),
)
def test_broker_is_found_by_options_and_by_a_file(admin: Admin, vhost: str, tmp_path: Path) -> None:
    """SPEC §9.1: rabbitmqadmin's options and its configuration file"""
    admin.run("declare", "queue", "name=here")
    file = tmp_path / "rabbitmqadmin.conf"
    settings = f"hostname = 127.0.0.1\nport = {admin.port}\nusername = guest\npassword = guest\n"
    file.write_text(f"[default]\n{settings}[ours]\n{settings}vhost = {vhost}\n[made]\n{settings}declare_vhost = {vhost}\n")
    assert admin.with_login("--config", str(file), "--node", "ours").column("queues") == ["here"]
    assert {"here"} <= set(admin.with_login("--config", str(file)).column("queues"))
    admin.with_login("--config", str(file), "--node", "made").run("declare", "queue", "name=there")
    assert admin.column("queues") == ["here", "there"]
    place = ("--host", "127.0.0.1", "--port", str(admin.port))
    login = ("--username", "guest", "--password", "guest", "--request-timeout", "5")
    assert admin.with_login(*place, *login, "--path-prefix", "", vhost=vhost).column("queues") == ["here", "there"]
    uri = ("--base-uri", f"http://guest:guest@127.0.0.1:{admin.port}")
    assert admin.with_login(*uri, vhost=vhost).column("queues") == ["here", "there"]
    wrong = admin.with_login(*place, "--username", "guest", "--password", "wrong")
    assert "Access refused: /api/queues" in wrong.run("list", "queues", fails=True)


@SURFACE.covers(
    *("--ssl", "--ssl-key-file", "--ssl-cert-file", "--ssl-ca-cert-file", "--ssl-insecure"),
    "--ssl-disable-hostname-verification",
)
def test_broker_with_tls_is_found(admin: Admin, tmp_path: Path) -> None:
    """SPEC §9.1: rabbitmqadmin's options of TLS, with a certificate that is demanded"""
    trust = Trust(tmp_path)
    with Running(tmp_path, environment=trust.environment(clients="required")) as broker:
        place = ("--port", str(broker.port_of("https")), "--ssl")
        own = ("--ssl-cert-file", str(trust.client.certificate), "--ssl-key-file", str(trust.client.key))
        trusting = ("--ssl-ca-cert-file", str(trust.ca))
        for options in (trusting, (*trusting, "--ssl-disable-hostname-verification"), ("--ssl-insecure",)):
            assert admin.with_login("--host", "localhost", *place, *own, *options).column("users") == ["guest"]
        without = admin.with_login("--host", "localhost", *place, *trusting)
        assert "certificate required" in without.run("list", "users", fails=True)
        strange = admin.with_login("--host", "localhost", *place, *own)
        assert "certificate verify failed" in strange.run("list", "users", fails=True)


def test_faults_are_told(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin shows the reason of what it was refused."""
    admin.run("declare", "queue", "name=q")
    told = admin.run("declare", "queue", "name=q", "durable=false", fails=True)
    assert "inequivalent arg 'durable' for queue 'q'" in told
    assert "not found" in admin.run("delete", "queue", "name=none", fails=True).lower()
    assert "type" in admin.run("declare", "exchange", "name=x", "type=odd", fails=True)
    words = ["name=p", "pattern=^q", 'definition={"hare": 1}']
    assert "are not recognised policy settings" in admin.run("declare", "policy", *words, fails=True)
