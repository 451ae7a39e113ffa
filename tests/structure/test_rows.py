"""Each row of SPEC §2 to §7, and each text of RabbitMQ's that a client can provoke, has a test that names it.

A test names a row in its docstring, or in a comment beside the parameters that prove it: `SPEC §4.2 x-message-ttl`. So
`grep -r "SPEC §4.2 x-message-ttl" tests` finds it. A text is named by standing in a test, where `…` is filled in. What
cannot be tried yet is listed with the reason.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# Section of SPEC -> what its row names, clause by clause.
ROWS = {
    "2.1": "content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to, expiration, "
    "message-id, timestamp, type, user-id, app-id, cluster-id, byte for byte",
    "2.2": "t, b, B, s, u, I, i, l, L, f, d, D, S, x, A, T, F, V, nested, depth cap",
    "2.3": "delivery-mode 2, user-id, expiration, priority, headers",
    "2.4": "one copy in memory",
    "3.1": "direct, fanout, topic, headers all, headers any, headers all-with-x, headers any-with-x, x-consistent-hash, "
    "hash-header, hash-property, x-delayed-message, x-delayed-type, x-delay, x-random, x-recent-history",
    "3.2": "default exchange, amq.direct, amq.fanout, amq.topic, amq.headers, amq.match, amq.rabbitmq.trace",
    "3.3": "durable, auto-delete, internal, alternate-exchange as an argument, alternate-exchange by policy, no return",
    "3.4": "exchange to exchange, any depth, cycles, at most once",
    "3.5": "one word, zero or more words, adjacent hashes, never exponential",
    "3.6": "CC, BCC, PDF events, agreements, images, sport news",
    "4.1": "durable, exclusive, auto-delete, server-named, passive declare, equivalence check, if-unused, if-empty, purge",
    "4.2": "x-message-ttl, x-expires, x-max-length, x-max-length-bytes, x-overflow drop-head, x-overflow reject-publish, "
    "x-overflow reject-publish-dlx, x-dead-letter-exchange, x-dead-letter-routing-key, x-dead-letter-strategy, "
    "x-max-priority, x-single-active-consumer, x-queue-mode, x-queue-version, x-queue-type classic, x-queue-type quorum, "
    "x-queue-type stream, x-queue-master-locator, x-queue-leader-locator, x-quorum-initial-group-size, x-delivery-limit, "
    "x-ha-policy, x-ha-nodes, x-message-deduplication, unknown arguments, bad values, message-ttl by policy, "
    "expires by policy, max-length by policy, max-length-bytes by policy, overflow by policy, "
    "dead-letter-exchange by policy, dead-letter-routing-key by policy, delivery-limit by policy, kept by policy",
    "4.3": "FIFO, requeued in their place, priorities",
    "4.4": "never to a consumer, in time",
    "4.5": "rejected, expired, maxlen, delivery_limit, x-death, x-first-death, x-last-death, cycle detection",
    "5.1": "mandatory, before the confirm, immediate",
    "5.2": "one ack for each message, nack, multiple",
    "5.3": "publishes wait, acknowledgements wait, 64 MiB, returns precede commit-ok, rollback, deduplication, "
    "x-cache-size, x-cache-ttl, x-message-deduplication exchange",
    "5.4": "nack under reject-publish",
    "6.1": "tags, no-ack, exclusive, x-priority, x-cancel-on-ha-failover, consumer arguments, cancel by the client, "
    "cancel by the broker, round-robin, single active consumer",
    "6.2": "prefetch-count for a consumer, prefetch-count for a channel, prefetch-size for a consumer, "
    "prefetch-size for a channel, prefetch-size and no-ack, larger than the window, refuse",
    "6.3": "ack, nack, reject, multiple, requeue, tag 0, redelivered, unknown tag",
    "6.4": "get, get-empty, remaining count, recover",
    "6.5": "direct reply-to, acknowledgement timeout",
    "7.1": "virtual hosts, vhost limits, max-connections, max-queues, description, tags, default queue type, "
    "deleting a virtual host",
    "7.2": "users, user tags, what tags allow, impersonator, permissions, topic permissions, "
    "username and vhost, user limits, patterns",
    "7.3": "default user, loopback peers only",
    "7.4": "PLAIN, AMQPLAIN, EXTERNAL, password hashes, SHA-256, SHA-512, argon2id, OAuth 2",
    "7.5": "revoking, deleting a user",
    "7.6": "policies, operator policies, priorities, live queues, live exchanges, runtime parameters, global parameters",
}
ROWS_LATER = {
    "2.4 one copy on disk": "there is no storage yet",
    "5.2 persistent and confirmed when on disk": "there is no storage yet",
    "5.3 commit atomic on disk": "there is no storage yet",
    "5.3 deduplication rebuilt on recovery": "there is no storage yet",
    "5.4 nack when a queue could not take it": "only a failed write can make it so, and there is no storage yet",
}

# Texts of the reference. `…` stands for names and numbers.
TEXTS = """
no queue '…' in vhost '/'
no exchange '…' in vhost '/'
no previously declared queue
queue name '…' contains reserved prefix 'amq.*'
exchange name '…' contains reserved prefix 'amq.*'
operation not permitted on the default exchange
deletion of system exchange 'amq.direct' in vhost '/' not allowed
cannot publish to internal exchange '…' in vhost '/'
queue '…' in vhost '/' in exclusive use
write access to exchange 'amq.default' in vhost '…' refused for user '…'
write access to topic '…' in exchange '…' in vhost '…' refused for user '…'
Login was refused using authentication mechanism PLAIN. For details see the broker logfile.
cannot obtain exclusive access to locked queue '…' in vhost '/'. It could be originally declared on another connection or \
the exclusive property value does not match that of the original declaration.
cannot obtain access to locked queue '…' in vhost '/'. basic.get operations are not supported by quorum queues with single \
active consumer
inequivalent arg '…' for … in vhost '/': received … but current is …
the value '10' of type 'signedint'
unknown delivery tag
queue '…' in vhost '/' in use
queue '…' in vhost '/' not empty
exchange '…' in vhost '/' in use
unknown exchange type '…'
invalid expiration '…': no_integer
user_id property set to '…' but authenticated user was 'guest'
cannot switch from confirm to tx mode
cannot switch from tx to confirm mode
channel is not transactional
partial tx completion
message size 134217729 is larger than configured max size 134217728
invalid arg '…' for queue '…' in vhost '/': …
invalid arg '…' for queue '…' in vhost '/' of queue type rabbit_quorum_queue
invalid property 'exclusive-owner' for queue '…' in vhost '/'
invalid property 'auto-delete' for queue '…' in vhost '/'
invalid property 'non-durable' for queue '…' in vhost '/'
routing_key_but_no_dlx_defined
fast reply consumer does not exist
reply consumer cannot acknowledge
reply consumer already set
delivery acknowledgement on channel … timed out. Timeout value used: … ms. This timeout value can be configured, see \
consumers doc guide to learn more
cannot declare queue '…': queue limit in vhost '…' (…) is reached
Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x
type 3, all octets = <<>>: {{frame_too_large,131073,131064}}
{{invalid_frame_end_marker,0}}
content body frame exceeds remaining content size
unimplemented method
expected 'channel.open'
second 'channel.open' seen
unexpected method in connection state running
type 8, all octets = <<>>
expected content header for class 60, got non content header frame instead
expected content body, got non content body frame instead
expected method frame, got non method frame instead
vhost … not found
access to vhost '…' refused for user '…'
access to vhost '…' refused for user '…': connection limit (…) is reached
attempt to reuse consumer tag '…'
negotiated frame_max = … is lower than the minimum allowed value (4096)
negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)
number of channels opened (1) has reached the negotiated channel_max (1)
immediate=true
prefetch_size!=0 (…)
active=false
requeue=false
cannot delete queue '…' in vhost '/'. queue.delete operations with if-unused flag set are not supported by quorum queues
"""
TEXTS_NOT_PROVOKED = {
    "cannot delete … if-unused …, basic.get, queue.purge and no_ack of a stream": "Leveret has no streams",
    "Feature `transient_nonexcl_queues` is deprecated": "RabbitMQ 4.3's; Leveret follows 3.13",
    "Closed via management plugin": "there is no management yet",
    "low on memory, low on disk": "there are no alarms yet",
}


def rows(table: dict[str, str]) -> Iterator[str]:
    for section, names in table.items():
        yield from (f"SPEC §{section} {name}" for name in names.split(", "))


def python_files(root: Path) -> Iterator[Path]:
    """All test files but this one, which names everything."""
    yield from sorted(path for path in root.rglob("*.py") if path != Path(__file__))


def said(source: str) -> Iterator[str]:
    """Comments, and the docstrings of tests, each in one line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield " ".join((ast.get_docstring(node) or "").split())


def written(source: str) -> Iterator[str]:
    """Strings, with `…` in place of what an f-string fills in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def rows_without_a_test(wanted: Iterable[str], root: Path) -> list[str]:
    found = "\n".join(line for path in python_files(root) for line in said(path.read_text()))
    return [row for row in wanted if not re.search(re.escape(row) + r"(?![\w-])", found)]


def marks_of_no_row(known: Iterable[str], root: Path) -> list[str]:
    """What a test calls a row and is none; a bare section, as in `SPEC §4.2: …`, is no such mark."""
    row = re.compile(f"(?:{'|'.join(map(re.escape, known))})(?![\\w-])")
    return [
        f"{path.name}: {line[mark.start() :]}"
        for path in python_files(root)
        for line in said(path.read_text())
        for mark in re.finditer(r"SPEC §[2-7]\.\d ", line)
        if not row.match(line, mark.start())
    ]


def texts_without_a_test(wanted: Iterable[str], root: Path) -> list[str]:
    files = [path for path in python_files(root) if path.name.startswith("test_")]
    found = "\n".join(text for path in files for text in written(path.read_text()))
    return [text for text in wanted if not re.search(".*?".join(map(re.escape, text.split("…"))), found)]


def test_every_row_has_a_test() -> None:
    assert rows_without_a_test(rows(ROWS), TESTS) == []


def test_every_mark_names_a_row() -> None:
    assert marks_of_no_row(rows(ROWS), TESTS) == []


def test_every_text_has_a_test() -> None:
    assert texts_without_a_test(TEXTS.strip("\n").splitlines(), TESTS) == []


# The checks


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one test file."""
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker/test_a.py").write_text(
        'TABLE = [\n    1,  # SPEC §9.1 beside\n    f"no queue \'{2}\' in " "vhost",\n]\n\n'
        'def test_it():\n    """SPEC §9.1 one: so it is.\n\n    SPEC §9.2\n    two words."""\n\n'
        'def helper():\n    """SPEC §9.1 helper."""\n    return "SPEC §9.1 string"\n'
    )
    return tmp_path


def test_rows_are_found_in_docstrings_and_comments(tree: Path) -> None:
    assert rows_without_a_test(rows({"9.1": "one, beside", "9.2": "two words"}), tree) == []


@pytest.mark.parametrize("gap", ["three", "on", "helper", "string", "two words"])
def test_gap_is_found(tree: Path, gap: str) -> None:
    assert rows_without_a_test(rows({"9.1": f"one, {gap}"}), tree) == [f"SPEC §9.1 {gap}"]


def test_longer_name_is_another_row(tree: Path) -> None:
    (tree / "test_b.py").write_text("# SPEC §9.1 any-with-x\n")
    assert rows_without_a_test(rows({"9.1": "any, any-with-x"}), tree) == ["SPEC §9.1 any"]


def test_mark_of_no_row_is_found(tree: Path) -> None:
    (tree / "test_b.py").write_text("# SPEC §4.2: a section\n# SPEC §4.2 known: so\n# SPEC §4.2 unknown\n")
    assert marks_of_no_row(rows({"4.2": "known"}), tree) == ["test_b.py: SPEC §4.2 unknown"]


@pytest.mark.parametrize(
    ("text", "missing"),
    [("no queue '…' in vhost", False), ("queue '…' in", False), ("no exchange '…' in vhost", True), ("no queue in", True)],
)
def test_text_without_a_test_is_found(tree: Path, text: str, missing: bool) -> None:
    assert texts_without_a_test([text], tree) == [text] * missing
