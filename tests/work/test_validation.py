"""Issue 6, 2: what is wrong in a file is told in one line each, with exit status 2, before anything connects."""

import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tests.work.support import exchange_file, handlers, leveret_work, subscription, write
from tests.work.test_table import SAMPLE

from leveret.cli.work import work
from leveret.work import BadSubscriptions, Exchange, Runtime, Subscription, Subscriptions
from leveret.work.schema import schema
from leveret.work.subscription_file import FILE_MAX, read_files

CORES = os.cpu_count() or 1
SCHEMA = Draft202012Validator(schema())
LONG = "x" * 256
MODULE = """
constant = 3
def good(message): pass
async def also_good(message): pass
def generates(message): yield 1
async def generates_too(message): yield 1
"""


class Listener:
    """A port that counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.url = f"amqp://127.0.0.1:{self._socket.getsockname()[1]}"

    def count(self) -> int:
        found = 0
        try:
            while True:
                self._socket.accept()[0].close()
                found += 1
        except BlockingIOError:
            return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    handlers(tmp_path, MODULE, "some_handlers")
    monkeypatch.delitem(sys.modules, "some_handlers", raising=False)
    return tmp_path


def run_work(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    done = CliRunner().invoke(work, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


GOOD = {"Name": "s", "Handler": "some_handlers:good", "RoutingKey": "k"}
HEADERS = {"Name": "s", "Handler": "some_handlers:good"}
WHOLE = "must be a whole number from"
HANDLER_RULE = "must be a module:function, a list with a command and its arguments, or an http or https URL"
WORD_RULE = "must be empty or words of [a-zA-Z0-9_-] with dots between them"
NAMES = "must be one of "


def numbers_but_none(least: int) -> list[Any]:
    return [least - 1, 1.5, "1", True, [], 1 << 40]


# Exchange's type, what is changed in a good subscription, the field and how its rule begins, and whether a schema knows.
Case = tuple[str, dict[str, Any], str, str, bool]
BAD: list[Case] = [
    *[("Direct", {"Name": "s", field: 3}, field, "must be text", True) for field in ("Id", "Caption", "Description")],
    ("Direct", {"Name": 3}, "Name", "must be text", True),
    ("Direct", {"Name": None}, "Name", "is required unless there is a ConsumerId", True),
    ("Direct", {"Name": ""}, "Name", "is required unless there is a ConsumerId", True),
    ("Direct", {"ConsumerId": 3}, "ConsumerId", "must be text", True),
    ("Direct", {"ConsumerId": LONG}, "ConsumerId", "must have at most 255 bytes", True),
    ("Direct", {"ConsumerId": "é" * 128}, "ConsumerId", "must have at most 255 bytes", False),
    ("Direct", {"Name": LONG}, "Queue", "must have at most 255 bytes", True),
    ("Direct", {"Queue": 3}, "Queue", "must be a name, or an object with Name and Arguments", True),
    ("Direct", {"Queue": ["q"]}, "Queue", "must be a name, or an object with Name and Arguments", True),
    ("Direct", {"Queue": LONG}, "Queue", "must have at most 255 bytes", True),
    ("Direct", {"Queue": "amq.mine"}, "Queue", "must not begin with amq.", False),
    ("Direct", {"Queue": {"Nam": "q"}}, "Queue", "must be a name, or an object with Name and Arguments", True),
    ("Direct", {"Queue": {"Name": 3}}, "Queue", "must be a name, or an object with Name and Arguments", True),
    ("Direct", {"Queue": {"Arguments": 3}}, "Queue", "Arguments must be an object with values that AMQP can carry", True),
    ("Direct", {"Queue": {"Arguments": {"x": 1 << 70}}}, "Queue", "Arguments must be an object with values", False),
    ("Direct", {"Queue": {"Arguments": {LONG: 1}}}, "Queue", "Arguments must be an object with values", False),
    ("Direct", {"RoutingKey": None}, "RoutingKey", "is required for a Direct exchange", True),
    ("Topic", {"RoutingKey": None}, "RoutingKey", "is required for a Topic exchange", True),
    ("Direct", {"RoutingKey": 3}, "RoutingKey", "must be text", True),
    ("Direct", {"RoutingKey": "a b"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": "a..b"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": ".a"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": "a.*"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": "ключ"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": "a\n"}, "RoutingKey", WORD_RULE, False),
    ("Topic", {"RoutingKey": "a*"}, "RoutingKey", f"{WORD_RULE}, * for one word", True),
    ("Topic", {"RoutingKey": "#a"}, "RoutingKey", WORD_RULE, True),
    ("Direct", {"RoutingKey": LONG}, "RoutingKey", "must have at most 255 bytes", True),
    ("Fanout", {"RoutingKey": LONG}, "RoutingKey", "must have at most 255 bytes", True),
    ("Headers", {}, "RoutingHeaders", "is required for a Headers exchange", True),
    ("Headers", {"RoutingHeaders": [1]}, "RoutingHeaders", "must be an object of headers to match", True),
    ("Headers", {"RoutingHeaders": {"Headers": 3}}, "RoutingHeaders", "must be an object of headers to match", True),
    ("Headers", {"RoutingHeaders": {"x-match": "some"}}, "RoutingHeaders", "x-match must be all or any", True),
    ("Headers", {"RoutingHeaders": {"Headers": {"x-match": 1}}}, "RoutingHeaders", "x-match must be all or any", False),
    ("Headers", {"RoutingHeaders": {LONG: 1}}, "RoutingHeaders", "must have values that AMQP can carry", False),
    *[
        ("Direct", {field: value}, field, f"{WHOLE} {least}", True)
        for field, least in (("PrefetchSize", 0), ("PrefetchCount", 0), ("MinListenTime", 1), ("HandlerTimeLimit", 1))
        for value in numbers_but_none(least)
    ],
    *[
        ("Direct", {"RejectPolicy": "OnFailure", "DeliveryLimit": value}, "DeliveryLimit", f"{WHOLE} 0", True)
        for value in numbers_but_none(0)
    ],
    *[
        ("Direct", {"DeliveryLimit": 3, **more}, "DeliveryLimit", "needs RejectPolicy OnFailure", True)
        for more in ({}, {"RejectPolicy": "Never"}, {"RejectPolicy": "OnFailureDeadLetter"})
    ],
    *[
        ("Direct", {"WorkerThreadCount": value}, "WorkerThreadCount", f"must be 1 to {CORES}, the cores", known)
        for value, known in ((0, True), (-1, True), (1.5, True), ("2", True), (CORES + 1, False))
    ],
    ("Direct", {"AcknowledgePolicy": "Always"}, "AcknowledgePolicy", f"{NAMES}AlwaysAfterHandling, AlwaysBefore", True),
    ("Direct", {"AcknowledgePolicy": 3}, "AcknowledgePolicy", NAMES, True),
    ("Direct", {"AcknowledgePolicy": ["Never"]}, "AcknowledgePolicy", NAMES, True),
    (
        "Direct",
        {"RejectPolicy": "Sometimes"},
        "RejectPolicy",
        f"{NAMES}Never, OnFailure, OnFailureDeadLetter, WhenOver",
        True,
    ),
    ("Direct", {"RejectPolicy": 3}, "RejectPolicy", NAMES, True),
    ("Direct", {"RejectPolicy": {}}, "RejectPolicy", "must be an object WhenOverloaded", True),
    ("Direct", {"RejectPolicy": {"WhenOverloaded": 3}}, "RejectPolicy", "must be an object WhenOverloaded", True),
    ("Direct", {"RejectPolicy": {"WhenOverloaded": {}}}, "RejectPolicy", "must be an object WhenOverloaded", True),
    ("Direct", {"RejectPolicy": {"WhenOverloaded": {"Load": 0}}}, "RejectPolicy", "must be an object WhenOverloaded", True),
    (
        "Direct",
        {"RejectPolicy": {"WhenOverloaded": {"Load": "1"}}},
        "RejectPolicy",
        "must be an object WhenOverloaded",
        True,
    ),
    ("Direct", {"RejectPolicy": {"WhenOverloaded": {"Cpu": 1}}}, "RejectPolicy", "must be an object WhenOverloaded", True),
    ("Direct", {"RejectPolicy": "no_such:function"}, "RejectPolicy", "no_such:function cannot be imported: Module", False),
    (
        "Direct",
        {"RejectPolicy": "some_handlers:constant"},
        "RejectPolicy",
        "some_handlers:constant is not a function",
        False,
    ),
    ("Direct", {"RejectPolicy": "some_handlers:also_good"}, "RejectPolicy", "must be a plain function", False),
    *[
        ("Direct", {"AcknowledgePolicy": "AlwaysBeforeHandling", "RejectPolicy": policy}, "RejectPolicy", policy, True)
        for policy in ("OnFailure", "OnFailureDeadLetter")
    ],
    ("Direct", {"Receipt": "Sometimes"}, "Receipt", f"{NAMES}Never, OnSuccess, Always", True),
    ("Direct", {"Receipt": True}, "Receipt", f"{NAMES}Never, OnSuccess, Always", True),
    ("Direct", {"Handler": None}, "Handler", "is required", True),
    ("Direct", {"Handler": ""}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "good"}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": 3}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": []}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": [""]}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": ["ls", 1]}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": ["ls", "a\0b"]}, "Handler", HANDLER_RULE, False),
    ("Direct", {"Handler": {"a": 1}}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "ftp://there"}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "http://"}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "http://there:99999/"}, "Handler", HANDLER_RULE, False),
    ("Direct", {"Handler": "http://there/a b"}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "http://there/ü"}, "Handler", HANDLER_RULE, True),
    ("Direct", {"Handler": "no_such:function"}, "Handler", "no_such:function cannot be imported: ModuleNotFound", False),
    ("Direct", {"Handler": "some_handlers:bad"}, "Handler", "some_handlers:bad cannot be imported: Attribute", False),
    ("Direct", {"Handler": "some_handlers:constant"}, "Handler", "some_handlers:constant is not a function", False),
    ("Direct", {"Handler": "some_handlers:generates"}, "Handler", "is a generator", False),
    ("Direct", {"Handler": "some_handlers:generates_too"}, "Handler", "is a generator", False),
    ("Direct", {"Prefetchcount": 3}, "Prefetchcount", "unknown field; did you mean PrefetchCount?", True),
    ("Direct", {"Zzz": 3}, "Zzz", "unknown field", True),
]


def changed(kind: str, change: dict[str, Any]) -> dict[str, Any]:
    return exchange_file("x", {**(HEADERS if kind == "Headers" else GOOD), **change}, kind=kind)


def one_line(said: str, *parts: str) -> None:
    """It is exactly one line, and has these parts in this order."""
    assert said.count("\n") == 1, said
    at = 0
    for part in parts:
        at = said.find(part, at)
        assert at >= 0, (part, said)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize(("kind", "change", "field", "rule", "known"), BAD, ids=lambda value: str(value)[:40])
def test_bad_field(
    folder: Path, listener: Listener, suffix: str, kind: str, change: dict[str, Any], field: str, rule: str, known: bool
) -> None:
    """SPEC §10: refused before anything connects, naming the file, the subscription, the field and the rule."""
    document = changed(kind, change)
    path = folder / f"shop{suffix}"
    path.write_text(json.dumps(document) if suffix == ".json" else yaml.safe_dump(document, allow_unicode=True))
    status, out, err = run_work(str(path), "--url", listener.url)
    assert (status, out) == (2, "")
    title = str(change.get("Name", "s") or "1")
    one_line(err, f"leveret: {path}: subscription {title}: {field}: {rule}")
    assert listener.count() == 0


EXCHANGES: list[tuple[dict[str, Any], str, str, bool]] = [
    ({"Name": None}, "Name", "is required", True),
    ({"Name": ""}, "Name", "is required", True),
    ({"Name": 3}, "exchange 3: Name", "must be text", True),
    ({"Name": LONG}, f"exchange {LONG}: Name", "must have at most 255 bytes", True),
    ({"Type": "direct"}, "exchange x: Type", "must be one of Direct, Topic, Fanout, Headers", True),
    ({"Type": 3}, "exchange x: Type", "must be one of Direct, Topic, Fanout, Headers", True),
    ({"Durable": "yes"}, "exchange x: Durable", "must be true or false", True),
    ({"Caption": 3}, "exchange x: Caption", "must be text", True),
    ({"Subscriptions": 3}, "exchange x: Subscriptions", "must be a list", True),
    ({"Subscriptions": "abc"}, "exchange x: Subscriptions", "must be a list", True),
    ({"Subscriptions": [3]}, "Subscriptions", "must be a list of objects", True),
    ({"Subscriptions": []}, "Subscriptions", "there are none", False),
    ({"Subscription": []}, "Subscription", "unknown field; did you mean Subscriptions?", True),
]


@pytest.mark.parametrize(("change", "field", "rule", "known"), EXCHANGES, ids=lambda value: str(value)[:40])
def test_bad_field_of_an_exchange(
    folder: Path, listener: Listener, change: dict[str, Any], field: str, rule: str, known: bool
) -> None:
    document = {"Name": "x", "Type": "Fanout", "Subscriptions": [{**HEADERS, "Queue": "q"}], **change}
    path = write(folder / "shop.json", document)
    status, out, err = run_work(str(path), "--url", listener.url)
    assert (status, out) == (2, "")
    one_line(err, f"leveret: {path}: {field}: {rule}")
    assert listener.count() == 0
    assert SCHEMA.is_valid(without_nulls(document)) is not known


def without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


@pytest.mark.parametrize(("kind", "change", "field", "rule", "known"), BAD, ids=lambda value: str(value)[:40])
def test_schema_knows_what_it_can(kind: str, change: dict[str, Any], field: str, rule: str, known: bool) -> None:
    document = changed(kind, change)
    document["Subscriptions"] = [without_nulls(one) for one in document["Subscriptions"]]
    assert SCHEMA.is_valid(document) is not known


GOOD_ONES: list[tuple[str, dict[str, Any]]] = [
    ("Direct", {}),
    ("Direct", {"RoutingKey": ""}),
    ("Direct", {"RoutingKey": "pdf_create.a-b"}),
    ("Topic", {"RoutingKey": "#"}),
    ("Topic", {"RoutingKey": "*.a_b.#"}),
    ("Fanout", {"RoutingKey": "any thing"}),
    ("Headers", {"RoutingHeaders": {"a": 1}}),
    ("Headers", {"RoutingHeaders": {"Headers": {"a": 1}, "x-match": "any"}}),
    ("Direct", {"Queue": "q", "ConsumerId": "c"}),
    ("Direct", {"Queue": {"Name": "q", "Arguments": {"x-max-length": 5}}}),
    ("Direct", {"PrefetchSize": 0xFFFFFFFF, "PrefetchCount": 0xFFFF, "WorkerThreadCount": CORES, "MinListenTime": 1}),
    ("Direct", {"AcknowledgePolicy": "AlwaysBeforeHandling", "RejectPolicy": "WhenOverloaded", "Receipt": "Always"}),
    ("Direct", {"RejectPolicy": {"WhenOverloaded": {"Load": 0.5, "InFlight": 3}}}),
    ("Direct", {"RejectPolicy": "some_handlers:good"}),
    ("Direct", {"Handler": "some_handlers:also_good"}),
    ("Direct", {"Handler": ["cat", "-"]}),
    ("Direct", {"Handler": "https://user:secret@there:8443/a?b=c"}),
    ("Direct", {"Caption": None}),
]


@pytest.mark.parametrize(("kind", "change"), GOOD_ONES, ids=lambda value: str(value)[:40])
def test_good_field(folder: Path, kind: str, change: dict[str, Any]) -> None:
    document = changed(kind, change)
    path = write(folder / "shop.json", document)
    assert run_work("--check", str(path)) == (0, "1 subscription, all well\n", "")
    document["Subscriptions"] = [without_nulls(one) for one in document["Subscriptions"]]
    assert SCHEMA.is_valid(document)


def test_schema_takes_the_seeds_shape(folder: Path) -> None:
    status, out, _ = run_work("--schema")
    assert status == 0
    printed = json.loads(out)
    Draft202012Validator.check_schema(printed)
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    for document in (sample, [sample, sample]):
        Draft202012Validator(printed).validate(document)
    assert run_work("--check", str(SAMPLE))[0] == 2  # there is no module `registry` here
    handlers(folder, "def handle(message): pass", "registry")
    assert run_work("--check", str(SAMPLE))[0] == 0


def test_strict_keeps_to_letters_and_digits(folder: Path) -> None:
    """SPEC §10: the seed's own rule."""
    path = write(folder / "a.json", exchange_file("x", {**GOOD, "RoutingKey": "pdf_create"}))
    assert run_work("--check", str(path))[0] == 0
    status, _, err = run_work("--check", "--strict", str(path))
    assert status == 2
    one_line(err, "subscription s: RoutingKey: must be empty or words of [a-zA-Z0-9] with dots")
    topic = write(folder / "b.json", exchange_file("x", {**GOOD, "RoutingKey": "a1.*.#"}, kind="Topic"))
    assert run_work("--check", "--strict", str(topic))[0] == 0


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """As a command, with all that a shell sees."""
    bad = {"Name": "b", "Handler": ["x"], "RoutingKey": "k", "PrefetchCount": -1, "Receipt": "x"}
    write(tmp_path / "a.json", exchange_file("x", subscription(3), bad))
    (tmp_path / "b.yml").write_text("Name: y\nType: Headers\nSubscriptions:\n  - {ConsumerId: c, Handler: [ls]}\n")
    done = leveret_work(tmp_path, ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.rpartition(": ")[0] for line in done.stderr.splitlines()] == [
        "leveret: a.json: subscription s: Handler",
        "leveret: a.json: subscription b: PrefetchCount",
        "leveret: a.json: subscription b: Receipt",
        "leveret: b.yml: subscription c: RoutingHeaders",
    ]


def test_two_cannot_have_one_queue(folder: Path) -> None:
    """SPEC §10: duplicates refused, also across files, and of a name by default and one that is given."""
    write(folder / "a.json", exchange_file("x", GOOD))
    write(folder / "b.json", exchange_file("y", {**GOOD, "Name": "t", "Queue": "x.s"}))
    status, _, err = run_work("--check", str(folder))
    assert status == 2
    one_line(err, "b.json: subscription t: Queue: x.s is already used by another subscription (", "a.json: subscription s)")


def test_one_exchange_has_one_type(folder: Path) -> None:
    write(folder / "a.json", exchange_file("x", GOOD))
    write(folder / "b.json", exchange_file("x", {**GOOD, "Name": "t"}, kind="Topic"))
    status, _, err = run_work("--check", str(folder))
    assert status == 2
    one_line(err, "b.json: exchange x: Type: differs from another definition")


def test_queue_of_a_brokers_own_exchange_needs_a_name(folder: Path) -> None:
    path = write(folder / "a.json", exchange_file("amq.direct", GOOD))
    status, _, err = run_work("--check", str(path))
    assert status == 2
    one_line(err, "subscription s: Queue: must not begin with amq., which is reserved for the broker: amq.direct.s")


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.json", b"{", "cannot be read: "),
        ("a.json", b"", "cannot be read: "),
        ("a.json", b"3", "must be an exchange with its Subscriptions, or a list of exchanges"),
        ("a.json", b'[{"Name": "x"}, 3]', "must be an exchange with its Subscriptions, or a list of exchanges"),
        ("a.json", b"[" * 100_000, "cannot be read: "),
        ("a.yaml", b"a: [", "cannot be read: "),
        ("a.yaml", b"\xff\xfe\xfa", "cannot be read: "),
        ("a.yaml", b"[" * 20_000, "cannot be read: "),
        ("a.yaml", b"- x\n", "must be an exchange with its Subscriptions, or a list of exchanges"),
        ("a.yaml", b'Name: "a\\ud800"\nSubscriptions: []', "Name: must be text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_file_that_is_none(folder: Path, name: str, content: bytes, rule: str) -> None:
    (folder / name).write_bytes(content)
    status, out, err = run_work("--check", str(folder / name))
    assert (status, out) == (2, "")
    one_line(err, f"leveret: {folder / name}: ", rule)


def test_file_that_is_not_there(folder: Path) -> None:
    status, _, err = run_work("--check", "nowhere.json")
    assert (status, err) == (2, "leveret: nowhere.json: no such file\n")
    assert run_work("--check")[0] == 2


def test_file_that_is_too_long(folder: Path) -> None:
    with (folder / "a.json").open("wb") as file:
        file.truncate(FILE_MAX + 1)
    status, _, err = run_work("--check", "a.json")
    assert status == 2
    one_line(err, "a.json: cannot be read: more than")


def test_folder_without_files(folder: Path) -> None:
    empty = folder / "empty"
    empty.mkdir()
    (empty / "README.txt").write_text("not one of ours")
    status, _, err = run_work("--check", str(empty))
    assert (status, err) == (2, f"leveret: {empty}: Subscriptions: there are none\n")


@pytest.mark.parametrize("error", ["raise SystemExit(0)", "raise ValueError('two\\nlines')", "def ("])
def test_module_that_cannot_be_imported_is_one_line(folder: Path, error: str) -> None:
    name = f"broken{abs(hash(error))}"
    handlers(folder, error, name)
    write(folder / "a.json", exchange_file("x", {**GOOD, "Handler": f"{name}:f"}))
    status, _, err = run_work("--check", "a.json")
    assert status == 2
    one_line(err, f"a.json: subscription s: Handler: {name}:f cannot be imported: ")


def test_names_cannot_break_the_line(folder: Path) -> None:
    write(folder / "a.json", exchange_file("x", {**GOOD, "Name": "a\nb\x1b[2J", "Receipt": "x"}))
    status, _, err = run_work("--check", "a.json")
    assert status == 2
    one_line(err, "a.json: subscription a b?[2J: Receipt: must be")


def test_list_shows_queues_and_handlers(folder: Path) -> None:
    write(
        folder / "a.json", exchange_file("x", GOOD, {**GOOD, "Name": "t", "Handler": ["cat", "-"], "WorkerThreadCount": 1})
    )
    headers = {"ConsumerId": "c", "Handler": "http://there/", "RoutingHeaders": {"a": 1}, "Queue": {"Name": "own"}}
    write(folder / "b.json", exchange_file("y", headers, kind="Headers"))
    status, out, _ = run_work("--list", str(folder))
    assert status == 0
    assert [re.split(" {2,}", line) for line in out.splitlines()] == [
        ["EXCHANGE", "TYPE", "KEY", "QUEUE", "THREADS", "HANDLER"],
        ["x", "Direct", "k", "x.s", "1", "some_handlers:good"],
        ["x", "Direct", "k", "x.t", "1", "cat -"],
        ["y", "Headers", '{"a": 1}', "own", "1", "http://there/"],
    ]


def test_yaml_says_the_same_as_json(folder: Path) -> None:
    text = """
Name: x
Type: Topic
Subscriptions:
  - Name: s
    RoutingKey: a.#
    Handler: [cat]
    RejectPolicy: {WhenOverloaded: {InFlight: 2}}
---
Name: y
Subscriptions:
  - {ConsumerId: c, Handler: [cat]}
"""
    (folder / "a.yaml").write_text(text)
    documents = list(yaml.safe_load_all(text))
    # As Windows' editors write it.
    (folder / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(documents).encode())
    assert read_files([folder / "a.yaml"]) == read_files([folder / "a.json"])
    assert [exchange.name for exchange in read_files([folder / "a.yaml"])] == ["x", "y"]


def test_values_are_checked_as_files_are() -> None:
    def nothing(message: object) -> None:
        """Handle."""

    one = Subscription(name="s", handler=nothing, prefetch_count=-1)
    with pytest.raises(BadSubscriptions) as found:
        Runtime("amqp://127.0.0.1:1", [Exchange("x", subscriptions=[one])])
    assert str(found.value) == "subscription s: PrefetchCount: must be a whole number from 0 to 65535"
    with pytest.raises(BadSubscriptions, match="Handler: is a generator"):
        Runtime("amqp://127.0.0.1:1", [Exchange("x", subscriptions=[Subscription(name="s", handler=generate)])])
    policy = Subscription(name="s", handler=nothing, reject_policy=later)
    with pytest.raises(BadSubscriptions, match="RejectPolicy: must be a plain function"):
        Runtime("amqp://127.0.0.1:1", [Exchange("x", subscriptions=[policy])])


def generate(message: object) -> Iterator[int]:
    yield 1


async def later(message: object) -> bool:
    return True


def test_decorated_functions_are_subscriptions() -> None:
    subscriptions = Subscriptions()

    @subscriptions.on("x", type="Topic", routing_key="a.*", prefetch_count=3)
    def first(message: object) -> None:
        """Handle."""

    @subscriptions.on("x", type="Topic", routing_key="b", name="other")
    async def second(message: object) -> None:
        """Handle."""

    (exchange,) = subscriptions.exchanges
    assert (exchange.name, exchange.type, exchange.durable) == ("x", "Topic", True)
    assert [exchange.queue_of(one) for one in exchange.subscriptions] == ["x.first", "x.other"]
    assert [one.handler for one in exchange.subscriptions] == [first, second]
    with pytest.raises(ValueError, match="exchange x is Topic and durable elsewhere"):
        subscriptions.on("x", type="Direct")
