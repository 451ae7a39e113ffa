"""leveretctl against a live broker: rabbitmqctl's commands, output and exit codes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.management.amqp import connected
from tests.management.support import Running

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # A socket's path must not be long.
    folder = tmp_path_factory.mktemp("ctl")
    with Running(folder) as running:
        yield running


@pytest.fixture
def ctl(broker: Running) -> Run:
    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(broker.folder / "data"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, input=given, timeout=60)

    return run


def test_vhosts_are_added_listed_and_deleted(ctl: Run) -> None:
    """SPEC §9.5: the seeds' commands, with rabbitmqctl's output."""
    done = ctl("add_vhost", "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, 'Adding vhost "x" ...\n', "")
    assert ctl("list_vhosts").stdout == "Listing vhosts ...\nname\n/\nx\n"
    assert ctl("-q", "list_vhosts").stdout == "name\n/\nx\n"
    assert ctl("list_vhosts", "--silent").stdout == "/\nx\n"
    assert json.loads(ctl("list_vhosts", "name", "tracing", "--formatter", "json").stdout) == [
        {"name": "/", "tracing": False},
        {"name": "x", "tracing": False},
    ]
    assert ctl("list_vhosts", "--formatter=csv").stdout == '"name"\n"/"\n"x"\n'
    assert ctl("list_vhosts", "--formatter", "erlang", "-q").stdout == '[[{name,<<"/">>}],[{name,<<"x">>}]]\n'
    pretty = "┌──────┐\n│ name │\n├──────┤\n│ /    │\n├──────┤\n│ x    │\n└──────┘\n"
    assert ctl("list_vhosts", "--formatter", "pretty_table", "-q").stdout == pretty
    assert ctl("delete_vhost", "x").stdout == 'Deleting vhost "x" ...\n'
    missing = ctl("delete_vhost", "x")
    assert (missing.returncode, missing.stderr) == (65, "Error:\nVirtual host 'x' does not exist\n")


def test_protocol_of_connections_is_a_tuple(ctl: Run, broker: Running) -> None:
    """SPEC §9.5: list_connections, in each format as rabbitmqctl writes it."""
    with connected(broker) as connection:
        connection.channel()
        assert ctl("-q", "list_connections", "user", "protocol").stdout == "user\tprotocol\nguest\t{0,9,1}\n"
        shown = {form: ctl("-q", "list_connections", "protocol", "--formatter", form).stdout for form in ("csv", "erlang")}
        assert shown == {"csv": '"protocol"\n"{0,9,1}"\n', "erlang": "[[{protocol,{0,9,1}}]]\n"}
        rows = json.loads(ctl("list_connections", "pid", "protocol", "--formatter", "json").stdout)
        assert [row["protocol"] for row in rows] == [[0, 9, 1]]
        assert rows[0]["pid"].endswith(f":{broker.port}")


def test_tracing_cluster_name_and_settings(ctl: Run, broker: Running) -> None:
    """SPEC §9.5, §9.6: what is switched on a running broker."""
    assert "Trace enabled for vhost /" in ctl("trace_on").stdout
    assert broker.http().get("/api/vhosts/%2F")["tracing"] is True
    assert ctl("trace_off").returncode == 0
    assert ctl("set_cluster_name", "rabbits").returncode == 0
    assert broker.http().get("/api/cluster-name") == {"name": "rabbits"}
    assert ctl("set_vm_memory_high_watermark", "0.4").returncode == 0
    assert ctl("set_vm_memory_high_watermark", "absolute", "2GB").returncode == 0
    assert ctl("set_vm_memory_high_watermark", "2").returncode == 65
    assert ctl("set_disk_free_limit", "200MB").returncode == 0
    assert ctl("set_log_level", "warning").returncode == 0
    assert ctl("set_log_level", "loud").returncode == 65


def test_ping_status_and_passwords(ctl: Run) -> None:
    """SPEC §9.5: for probes and people."""
    assert ctl("ping", "-q").stdout == "Ping succeeded\n"
    assert "RabbitMQ version: 3.13.7" in ctl("status").stdout
    assert json.loads(ctl("status", "--formatter", "json").stdout)["rabbitmq_version"] == "3.13.7"
    assert ctl("await_startup").returncode == 0
    assert ctl("authenticate_user", "guest", "guest").stdout.endswith("Success\n")
    assert ctl("authenticate_user", "guest", given="guest\n").returncode == 0
    assert ctl("authenticate_user", "guest", "wrong").returncode == 65


def test_bad_use_is_told_with_rabbitmqctl_s_exit_codes(ctl: Run, tmp_path: Path) -> None:
    """SPEC §9.5: 64 for bad use, 69 where no broker answers."""
    for arguments in (["no_such_command"], ["add_vhost"], ["add_vhost", "a", "b"], ["--no-such-option", "ping"], []):
        assert ctl(*arguments).returncode == 64, arguments
    assert ctl("ping", "--formatter", "elixir").returncode == 64
    unknown = ctl("list_quues")
    assert (unknown.returncode, unknown.stderr) == (
        64,
        "Error:\nCommand 'list_quues' not found.\nDid you mean 'list_queues'?\n",
    )
    absent = ctl("join_cluster", "rabbit@elsewhere")
    assert (absent.returncode, absent.stdout) == (69, "")
    reason = "there are no clusters yet; a broker is a single node"
    assert absent.stderr == f"Error:\n'join_cluster' is not supported: {reason}.\n"
    assert ctl("list_queues", "no_such_column").stderr == "Error:\nInfo key(s) no_such_column are not supported\n"
    assert ctl("--timeout", "soon", "ping").returncode == 64
    nobody = ctl("ping", "--data-dir", str(tmp_path))
    assert nobody.returncode == 69
    assert f"cannot connect to a broker at {tmp_path}" in nobody.stderr
    assert ctl("ping", "--url", "http://guest:guest@127.0.0.1:1").returncode == 69
    assert "list_queues" in ctl("help").stdout


def test_remote_broker_is_asked_by_its_url(ctl: Run, broker: Running) -> None:
    """SPEC §9.5: any broker with RabbitMQ's API."""
    url = f"http://guest:guest@127.0.0.1:{broker.http_port}"
    assert ctl("--url", url, "-q", "list_vhosts").stdout == "name\n/\n"
    assert ctl("--url", url.replace("guest:guest", "guest:wrong"), "list_vhosts").returncode == 65


def test_stop_stops_in_order(tmp_path: Path) -> None:
    """SPEC §9.5: leveretctl stop."""
    with Running(tmp_path) as running:
        command = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(tmp_path / "data"), "stop"]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
        assert running.popen.wait(60) == 0


def test_users_and_their_rights(ctl: Run) -> None:
    """SPEC §9.5: users, tags, permissions and topic permissions."""
    assert ctl("add_user", "amy", "secret").returncode == 0
    assert ctl("add_user", "amy", "secret").returncode == 70
    assert ctl("add_user", "bob", given="from stdin\n").returncode == 0
    assert ctl("authenticate_user", "bob", "from stdin").returncode == 0
    assert ctl("change_password", "amy", "other").returncode == 0
    assert ctl("authenticate_user", "amy", "other").returncode == 0
    assert ctl("set_user_tags", "amy", "monitoring", "policymaker").stdout.startswith(
        'Setting tags for user "amy" to [monitoring, policymaker] ...'
    )
    assert ctl("authenticate_user", "amy", "other").returncode == 0
    listed = ctl("-q", "list_users").stdout.splitlines()
    assert listed[0] == "user\ttags"
    assert "amy\t[monitoring, policymaker]" in listed
    assert ctl("set_permissions", "-p", "/", "amy", "^a", ".*", "").returncode == 0
    assert "amy\t^a\t.*\t" in ctl("-q", "list_permissions").stdout.splitlines()
    assert ctl("-q", "list_user_permissions", "amy").stdout == "vhost\tconfigure\twrite\tread\n/\t^a\t.*\t\n"
    assert ctl("set_topic_permissions", "amy", "amq.topic", "^a", "^b").returncode == 0
    assert ctl("-q", "list_topic_permissions").stdout == "user\texchange\twrite\tread\namy\tamq.topic\t^a\t^b\n"
    assert ctl("-q", "list_user_topic_permissions", "amy").stdout == "vhost\texchange\twrite\tread\n/\tamq.topic\t^a\t^b\n"
    assert ctl("clear_topic_permissions", "amy").returncode == 0
    assert ctl("clear_permissions", "amy").returncode == 0
    assert ctl("clear_password", "amy").returncode == 0
    assert ctl("authenticate_user", "amy", "other").returncode == 65
    assert ctl("set_user_limits", "amy", '{"max-connections": 3}').returncode == 0
    assert ctl("-q", "list_user_limits", "--user", "amy").stdout == '{"max-connections":3}\n'
    assert ctl("-q", "list_user_limits", "--global").stdout == 'user\tlimits\namy\t{"max-connections":3}\n'
    assert ctl("clear_user_limits", "amy", "all").returncode == 0
    for name in ("amy", "bob"):
        assert ctl("delete_user", name).returncode == 0
    missing = ctl("-q", "delete_user", "amy")
    assert (missing.returncode, missing.stderr) == (67, 'Error:\nUser "amy" does not exist\n')
    assert ctl("set_permissions", "amy", "", "", "").returncode == 67
    assert ctl("set_permissions", "-p", "nowhere", "guest", "", "", "").returncode == 65
    assert ctl("change_password", "amy", "x").returncode == 67


def test_policies_parameters_and_limits(ctl: Run) -> None:
    """SPEC §9.5: policies, operator policies, parameters, limits."""
    assert ctl("set_policy", "short", "^q", '{"max-length": 5}', "--priority", "3", "--apply-to", "queues").returncode == 0
    columns = "vhost\tname\tpattern\tapply-to\tdefinition\tpriority"
    assert ctl("-q", "list_policies").stdout == f'{columns}\n/\tshort\t^q\tqueues\t{{"max-length":5}}\t3\n'
    assert ctl("set_operator_policy", "tight", ".*", '{"max-length": 9}').returncode == 0
    assert "tight" in ctl("-q", "list_operator_policies").stdout
    assert ctl("set_policy", "bad", ".*", "{").returncode == 65
    assert ctl("set_policy", "bad", ".*", '{"no-such": 1}').returncode == 65
    assert ctl("clear_policy", "short").returncode == 0
    missing = ctl("-q", "clear_policy", "short")
    assert (missing.returncode, missing.stderr) == (69, "Error:\nParameter does not exist\n")
    assert ctl("clear_operator_policy", "tight").returncode == 0
    assert ctl("set_global_parameter", "colour", '"grey"').returncode == 0
    assert 'colour\t"grey"' in ctl("-q", "list_global_parameters").stdout
    assert ctl("clear_global_parameter", "colour").returncode == 0
    assert ctl("set_vhost_limits", '{"max-queues": 100}').returncode == 0
    assert ctl("list_vhost_limits").stdout == 'Listing limits for vhost "/" ...\n{"max-queues":100}\n'
    assert ctl("-q", "list_vhost_limits", "--global").stdout == 'vhost\tlimits\n/\t{"max-queues":100}\n'
    assert ctl("clear_vhost_limits").returncode == 0
    assert ctl("-q", "list_parameters").returncode == 0


@pytest.mark.parametrize("text", ["[1]", "7", "null"])
def test_limits_that_are_no_object_are_refused(ctl: Run, text: str) -> None:
    done = ctl("set_vhost_limits", text)
    assert (done.returncode, done.stderr) == (65, f"Error:\nnot a JSON object: {text}\n")


def test_lists_take_rabbitmqctl_s_flags(ctl: Run, broker: Running) -> None:
    """SPEC §9.5: --online, --offline, --local, --timeout, --no-table-headers, columns with commas."""
    http = broker.http()
    assert http.put("/api/queues/%2F/flags", {"arguments": {"x-max-length": 7}}).status == 201
    found = ctl("list_queues", "--online", "--timeout", "5").stdout.splitlines()
    assert found == ["Timeout: 5.0 seconds ...", "Listing queues for vhost / ...", "name\tmessages", "flags\t0"]
    assert ctl("list_queues", "-q", "--offline").stdout == ""
    assert ctl("list_queues", "-q", "--local", "--no-table-headers").stdout == "flags\t0\n"
    assert ctl("list_queues", "-s", "name,arguments,type").stdout == 'flags\t[{"x-max-length",7}]\tclassic\n'
    assert ctl("list_queues", "--timeout", "infinity", "-q").returncode == 0
    assert ctl("list_unresponsive_queues", "-q").stdout == ""
    assert (
        ctl("-q", "list_bindings", "destination_name", "routing_key").stdout
        == "destination_name\trouting_key\nflags\tflags\n"
    )
    mirrors = ctl("-q", "sync_queue", "flags")
    assert (mirrors.returncode, mirrors.stderr) == (69, "Error:\nnot_mirrored\n")
    assert ctl("-q", "cancel_sync_queue", "flags").stdout == "not_syncing\n"
    purged = ctl("-q", "purge_queue", "missing")
    assert (purged.returncode, purged.stderr) == (69, "Error:\nnot_found\n")
    missing = ctl("delete_queue", "missing")
    assert (missing.returncode, missing.stderr) == (64, "Error:\nQueue not found\n")
    assert ctl("delete_queue", "flags").stdout.endswith("Queue was successfully deleted with 0 ready messages\n")


def test_what_was_missing(ctl: Run, broker: Running) -> None:
    """SPEC §9.5: the rest of rabbitmqctl's commands that make sense on one node."""
    assert ctl("version").stdout == "3.13.7\n"
    assert ctl("autocomplete", "list_q").stdout == "list_queues\n"
    assert ctl("await_online_nodes", "1").returncode == 0
    assert ctl("await_online_nodes", "2").returncode == 75
    assert ctl("start_app").returncode == 0
    assert "already running on node" in ctl("restart_vhost").stdout
    assert ctl("restart_vhost", "-p", "nowhere").returncode == 70
    assert ctl("enable_feature_flag", "all").returncode == 0
    assert ctl("enable_feature_flag", "no_such").returncode == 64
    assert "port = " in ctl("-q", "environment").stdout
    assert ctl("add_vhost", "tagged").returncode == 0
    tagged = ctl("set_vhost_tags", "tagged", "a", "b")
    assert tagged.stdout == 'Setting tags for virtual host "tagged" to [a, b] ...\n'
    assert ctl("update_vhost_metadata", "tagged", "--description", "for tests").returncode == 0
    assert ctl("-s", "list_vhosts", "name", "tags", "description").stdout.splitlines()[-1] == "tagged\t[a, b]\tfor tests"
    assert ctl("set_vhost_tags", "nowhere", "a").returncode == 65
    assert ctl("set_permissions_globally", "guest", ".*", ".*", ".*").returncode == 0
    assert "guest\t.*\t.*\t.*" in ctl("-q", "list_permissions", "-p", "tagged").stdout
    assert ctl("set_permissions_globally", "nobody", ".*", ".*", ".*").returncode == 67
    assert ctl("close_all_user_connections", "guest", "because").returncode == 0
    assert ctl("delete_vhost", "tagged").returncode == 0
    hashed = ctl("-q", "hash_password", "secret").stdout.strip()
    assert ctl("add_user", "pre", hashed, "--pre-hashed-password").returncode == 0
    assert ctl("authenticate_user", "pre", "secret").returncode == 0
    assert ctl("delete_user", "pre").returncode == 0
    assert (
        broker.http().put("/api/queues/%2F/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}).status == 201
    )
    assert '"Raft State":"leader"' in ctl("quorum_status", "quorum", "--formatter", "json").stdout
    assert ctl("peek", "quorum", "1").returncode == 65
    assert ctl("delete_queue", "quorum").returncode == 0
    assert ctl("set_policy", "every", ".*", '{"max-length": 5}').returncode == 0
    assert broker.http().put("/api/queues/%2F/matched").status == 201
    assert ctl("-q", "list_policies_that_match", "matched").stdout.splitlines()[1].startswith("/\tevery\t.*\tall\t")
    assert ctl("clear_policy", "every").returncode == 0
    assert ctl("delete_queue", "matched").returncode == 0


def test_shutdown_waits_for_the_end(tmp_path: Path) -> None:
    """SPEC §9.5: shutdown, as systemd's units of RabbitMQ call it."""
    with Running(tmp_path) as running:
        command = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(tmp_path / "data"), "shutdown"]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
        assert running.popen.wait(60) == 0


def test_shovels(ctl: Run) -> None:
    """SPEC §9.8: shovel_status, restart_shovel, delete_shovel."""
    value = '{"src-uri": "amqp://", "src-queue": "shovel.a", "dest-uri": "amqp://guest:guest@/", "dest-queue": "shovel.b"}'
    value = value.replace("@/", "@/%2F")
    assert ctl("set_parameter", "shovel", "mover", '{"src-uri": 5}').returncode == 65
    assert ctl("set_parameter", "shovel", "mover", value).returncode == 0
    for _ in range(100):
        found = ctl("-q", "shovel_status", "--formatter", "json")
        rows = json.loads(found.stdout)
        if rows and rows[0]["state"] == "running":
            break
    assert {name: rows[0][name] for name in ("name", "vhost", "type", "source", "destination", "termination_reason")} == {
        "name": "mover",
        "vhost": "/",
        "type": "dynamic",
        "source": "amqp://",
        "destination": "amqp:///%2F",
        "termination_reason": "",
    }
    header, row = ctl("-q", "shovel_status").stdout.splitlines()
    assert header.split("\t")[:5] == ["name", "vhost", "type", "state", "source"]
    assert row.startswith("mover\t/\tdynamic\trunning\tamqp://")
    assert ctl("restart_shovel", "mover").returncode == 0
    assert ctl("restart_shovel", "nobody").returncode == 65
    assert "mover" in ctl("-q", "list_parameters").stdout
    assert ctl("delete_shovel", "mover").returncode == 0
    assert ctl("delete_shovel", "mover").returncode == 65
    assert ctl("-q", "shovel_status").stdout.splitlines()[1:] == []
