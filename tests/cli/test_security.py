"""docs/security.md: each command and each program of it, in order, from nothing to a client with a certificate."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.bench.brokers import free_ports
from tests.management.support import rabbitmqadmin
from tests.server.support import PATIENCE

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
# What the page says, and by which variable it is somewhere else.
PORTS = {
    "5672": "LEVERET_PORT",
    "5671": "LEVERET_TLS_PORT",
    "15672": "LEVERET_MANAGEMENT_PORT",
    "15671": "LEVERET_TLS_MANAGEMENT_PORT",
    "15692": "LEVERET_PROMETHEUS_PORT",
    "15691": "LEVERET_TLS_PROMETHEUS_PORT",
}
PROGRAMS = {"leveret": "-m leveret", "leveretctl": "-m leveret.cli.ctl"}


class Step(NamedTuple):
    """A command and what it shows, or the text of a program."""

    kind: str
    text: str
    shown: str = ""


def steps(document: str) -> Iterator[Step]:
    for kind, text in re.findall(r"```(toml|console|python)\n(.*?)```", document, re.DOTALL):
        if kind != "console":
            yield Step(kind, text)
            continue
        for step in text.split("$ ")[1:]:
            command, _, shown = step.partition("\n")
            yield Step(kind, command, shown)


class Place:
    """A folder in which the page is followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir()
        for name, how in {**PROGRAMS, "rabbitmqadmin": f"-W ignore {rabbitmqadmin()}"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {how} "$@"\n')
            (programs / name).chmod(0o755)
        self.ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        ports = {variable: self.ports[port] for port, variable in PORTS.items()}
        self._environment = {**os.environ, **ports, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self.broker: subprocess.Popen[str] | None = None

    def moved(self, text: str) -> str:
        """A text of the page, with the ports that there are here."""
        return re.sub(r"\b\d{4,5}\b", lambda found: self.ports.get(found[0], found[0]), text)

    def run(self, command: str) -> str:
        whole = ["/bin/sh", "-c", command]
        done = subprocess.run(
            whole, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, ""), (command, done)
        return done.stdout

    def start(self, command: str) -> str:
        """Start the broker; the line that it says."""
        with (self.folder / "log").open("wb") as log:
            words = ["/bin/sh", "-c", f"exec {command}"]
            self.broker = subprocess.Popen(
                words, cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.broker.stdout is not None
        return self.broker.stdout.readline()

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.broker.wait(PATIENCE)
            assert self.broker.stdout is not None
            self.broker.stdout.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.stop()


def test_page_from_its_beginning_to_its_end(place: Place) -> None:
    """SPEC §7.4 EXTERNAL"""
    found = list(steps(DOCUMENT.read_text(encoding="utf-8")))
    assert [step.kind for step in found].count("python") == 2
    assert len([step for step in found if step.kind == "console"]) >= 10
    for kind, text, shown in found:
        if kind == "toml":
            if not (place.folder / "leveret.toml").exists():
                (place.folder / "leveret.toml").write_text(text)
        elif kind == "python":
            (place.folder / "program.py").write_text(place.moved(text))
            assert place.run(f"{sys.executable} program.py") == "over TLS\n"
        elif text.endswith("&"):
            assert place.start(text.removesuffix(" &")) == place.moved(shown).rstrip("\n") + "\n"
        else:
            # An answer of HTTP has no end of line.
            assert place.run(place.moved(text)).rstrip("\n") == place.moved(shown).rstrip("\n"), text
    log = (place.folder / "log").read_text()
    assert "Traceback" not in log
    assert "WARNING" not in log


def test_each_setting_of_the_table_is_documented() -> None:
    from leveret.server.tls_settings import TlsSettings

    rows = re.findall(r"^\| (`.*?`) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name.strip("`") for row in rows for name in row.split(", ")}
    assert set(TlsSettings.__struct_fields__) <= documented
