"""A definitions file: what is none, and where one is read."""

from pathlib import Path

import pytest

from leveret.definitions.file import BadFile, parse, read_file
from leveret.server.config import Config
from leveret.server.node import configured_broker


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "is no definitions file: failed_to_parse_json"),
        (b"[]", "is no definitions file: not an object"),
        (b"\xff", "is no definitions file: failed_to_parse_json"),
        (b"[" * 100_000, "is no definitions file: failed_to_parse_json"),
        (b'{"queues": [{"name": "q"}]}', "queues[0] (q): vhost is missing"),
        (None, "No such file or directory"),
    ],
)
def test_bad_file_stops_the_start(content: bytes | None, fault: str, tmp_path: Path) -> None:
    """SPEC §9.2: load at start"""
    file = tmp_path / "definitions.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile) as caught:
        configured_broker(Config(storage="memory", load_definitions=str(file)))
    assert str(file) in str(caught.value)
    assert str(caught.value).endswith(fault)


def test_empty_file_defines_nothing(tmp_path: Path) -> None:
    """SPEC §9.2: import"""
    (tmp_path / "empty").write_bytes(b" ")
    assert read_file(str(tmp_path / "empty")) == {}


def test_file_in_erlangs_format_is_refused() -> None:
    """SPEC §9.2: rabbitmqctl export_definitions --format erlang"""
    with pytest.raises(BadFile, match="export it with --format json"):
        parse(b"\x83P\0\0")
