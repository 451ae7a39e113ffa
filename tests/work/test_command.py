"""`leveret work` as it is run: signals, exit status, changed files, metrics, a line on a terminal."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.support import eventually
from tests.work.support import Place, WorkProcess, exchange_file, fresh, handlers, leveret_work, subscription, write

NOTES = """
import time

def note(message):
    with open("notes", "a") as file:
        file.write(message.body.decode() + "\\n")
    if message.body == b"slow":
        time.sleep(1)
    if message.body == b"stuck":
        time.sleep(60)
    if message.body == b"bad":
        raise ValueError("it is bad")

async def threaded(message):
    import asyncio
    await asyncio.to_thread(note, message)
"""


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def exchange(tmp_path: Path) -> str:
    """An exchange with one subscription, in a file beside its handlers."""
    handlers(tmp_path, NOTES, "some_notes")
    name = fresh("shop")
    write(tmp_path / "shop.json", exchange_file(name, subscription("some_notes:note")))
    return name


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_finishes_the_work_in_hand(place: Place, tmp_path: Path, exchange: str, number: int) -> None:
    """Issue 6: no new messages, work in hand finished, the rest given back, nothing lost."""
    with WorkProcess(tmp_path, "shop.json", "--url", place.url) as process:
        process.says(": listening")
        place.publish(exchange, "k", b"slow", b"second", b"third")
        eventually(lambda: notes(tmp_path) == ["slow"])
        assert process.stop(number) == 0
        assert "Traceback" not in process.log
    assert notes(tmp_path) == ["slow"]
    assert [body for _, _, body in place.take(f"{exchange}.s")] == [b"second", b"third"]


@pytest.mark.parametrize("handler", ["note", "threaded"])
def test_handler_that_never_ends_does_not_keep_the_process(
    place: Place, tmp_path: Path, exchange: str, handler: str
) -> None:
    write(tmp_path / "shop.json", exchange_file(exchange, subscription(f"some_notes:{handler}")))
    with WorkProcess(tmp_path, "shop.json", "--url", place.url, "--grace", "0.3") as process:
        process.says(": listening")
        place.publish(exchange, "k", b"stuck")
        eventually(lambda: notes(tmp_path) == ["stuck"])
        assert process.stop() == 0
        assert "a handler was still running after 0.3 s; its message is requeued" in process.log
    assert [(method.redelivered, body) for method, _, body in place.take(f"{exchange}.s")] == [(True, b"stuck")]


def test_acknowledged_before_means_before(place: Place, tmp_path: Path, exchange: str) -> None:
    """The first thing the handler does is to end the process: the broker knows by then, and gives the message to nobody."""
    handlers(tmp_path, "import os\ndef end(message):\n    os.kill(os.getpid(), 9)\n", "the_end")
    fields = subscription("the_end:end", AcknowledgePolicy="AlwaysBeforeHandling", PrefetchCount=1)
    write(tmp_path / "shop.json", exchange_file(exchange, fields))
    with WorkProcess(tmp_path, "shop.json", "--url", place.url) as process:
        process.says(": listening")
        place.publish(exchange, "k", b"x")
        assert process.popen.wait(60) == -9
    eventually(lambda: place.consumers(f"{exchange}.s") == 0)
    assert place.ready(f"{exchange}.s") == 0


def test_none_left_is_status_1(tmp_path: Path, exchange: str) -> None:
    """SPEC §10."""
    done = leveret_work(tmp_path, "shop.json", "--url", f"amqp://127.0.0.1:{closed_port()}", "--retries", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "leveret: no worker is left"
    assert "that was failure 1 in a row, this worker ends" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_wait(tmp_path: Path, exchange: str, number: int) -> None:
    with WorkProcess(tmp_path, "shop.json", "--url", f"amqp://127.0.0.1:{closed_port()}") as process:
        process.says("trying again in 2.")
        assert process.stop(number) == 0
        assert process.log.count("trying again in") == 1


def test_bad_url_and_port_in_use(tmp_path: Path, exchange: str) -> None:
    done = leveret_work(tmp_path, "shop.json", "--url", "http://me:secret@there")
    assert done.returncode == 2
    assert "--url" in done.stderr
    assert "secret" not in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        done = leveret_work(tmp_path, "shop.json", "--metrics-port", port)
    assert done.returncode == 2
    assert f"cannot listen on {port}" in done.stderr
    assert "Traceback" not in done.stderr


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_and_health(place: Place, tmp_path: Path, exchange: str) -> None:
    """Issue 6: counters and a health endpoint; not well before all listen, and well then."""
    url = f"amqp://127.0.0.1:{closed_port()}"
    with WorkProcess(tmp_path, "shop.json", "--url", url, "--metrics-port", "0", "--retries", "0") as process:
        process.says("trying again")
        port = port_of(process)
        assert ask(port, "/health") == (503, "0 of 1 workers are listening\n")
        assert samples(port)["leveret_work_disconnects_total"] >= 1
        assert process.stop() == 0
    with WorkProcess(tmp_path, "shop.json", "--url", place.url, "--metrics-port", "0") as process:
        process.says(": listening", 1)
        port = port_of(process)
        assert ask(port, "/health") == (200, "1 of 1 workers are listening\n")
        place.publish(exchange, "k", b"good", b"bad", b"good")
        eventually(lambda: samples(port)["leveret_work_received_total"] == 3)
        eventually(lambda: samples(port)["leveret_work_in_flight"] == 0)
        found = samples(port)
        assert found["leveret_work_handled_total"] == 2
        assert found["leveret_work_failed_total"] == 1
        assert found["leveret_work_listening"] == 1
        assert ask(port, "/nowhere")[0] == 404
        assert process.stop() == 0


def port_of(process: WorkProcess) -> int:
    found = re.findall(r"metrics and health on http://127.0.0.1:(\d+)", process.log)
    return int(found[-1])


def samples(port: int) -> dict[str, float]:
    status, text = ask(port, "/metrics")
    assert status == 200
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation for family in families)
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_changed_files_are_begun_anew(place: Place, tmp_path: Path, exchange: str) -> None:
    """Issue 6, `--reload`: another file, a bad one, another handler, a bad handler."""
    with WorkProcess(tmp_path, ".", "--url", place.url, "--reload") as process:
        process.says(": listening")
        more = exchange_file(f"{exchange}2", subscription("some_notes:note"))
        write(tmp_path / "more.json", more)
        process.says(f"{exchange}2.s/1: listening")
        assert process.log.count("files have changed: restarting") == 1

        write(tmp_path / "more.json", {**more, "Type": "Sideways"})
        process.says("not restarting: still running the previous version")
        assert f"leveret: more.json: exchange {exchange}2: Type: must be one of" in process.log
        write(tmp_path / "more.json", more)
        process.says("files have changed: restarting", 2)
        process.says(f"{exchange}2.s/1: listening", 2)

        handlers(tmp_path, "def note(", "some_notes")
        process.says("not restarting: still running the previous version", 2)
        place.publish(f"{exchange}2", "k", b"before")
        eventually(lambda: notes(tmp_path) == ["before"])
        handlers(tmp_path, NOTES.replace("message.body.decode()", "message.body.decode().upper()"), "some_notes")
        process.says("files have changed: restarting", 3)
        process.says(f"{exchange}2.s/1: listening", 3)
        place.publish(f"{exchange}2", "k", b"after")
        eventually(lambda: notes(tmp_path) == ["before", "AFTER"])
        assert process.stop() == 0
        assert "Traceback" not in process.log


def test_sighup_begins_anew(place: Place, tmp_path: Path, exchange: str) -> None:
    """SPEC §9.6: with what is in the files now, if that is right; it never ends it."""
    with WorkProcess(tmp_path, ".", "--url", place.url) as process:
        process.says(": listening")
        write(tmp_path / "more.json", {"Name": ""})
        process.popen.send_signal(signal.SIGHUP)
        process.says("not restarting: still running the previous version")
        write(tmp_path / "more.json", exchange_file(f"{exchange}2", subscription("some_notes:note")))
        process.popen.send_signal(signal.SIGHUP)
        process.says(f"{exchange}2.s/1: listening")
        assert "SIGHUP: restarting" in process.log
        assert process.stop() == 0


def test_declared_beforehand_nothing_is_lost(place: Place, tmp_path: Path, exchange: str) -> None:
    """SPEC §10: what is published before any worker listens waits for it."""
    done = leveret_work(tmp_path, "shop.json", "--declare", "--url", place.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 subscription declared\n", "")
    place.publish(exchange, "k", b"early")
    with WorkProcess(tmp_path, "shop.json", "--url", place.url) as process:
        eventually(lambda: notes(tmp_path) == ["early"])
        assert process.stop() == 0
    place.delete(f"{exchange}.s")
    place.declare(f"{exchange}.s", **{"x-max-length": 1})
    done = leveret_work(tmp_path, "shop.json", "--declare", "--url", place.url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "PRECONDITION_FAILED - inequivalent arg 'x-max-length'" in done.stderr
    nobody = f"amqp://127.0.0.1:{closed_port()}"
    done = leveret_work(tmp_path, "shop.json", "--declare", "--url", nobody)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_log_has_no_control_characters_of_messages(place: Place, tmp_path: Path, exchange: str) -> None:
    """SPEC §9.6: a message's id is its sender's."""
    with WorkProcess(tmp_path, "shop.json", "--url", place.url) as process:
        process.says(": listening")
        place.publish(exchange, "k", b"bad", message_id="\x1b[2J\r\n2026 forged")
        process.says("it is bad")
        assert process.stop() == 0
        assert "message \\x1b[2J\\r\\n2026 forged failed" in process.log
        assert "\x1b" not in process.log


def test_signal_while_it_begins_anew_is_the_end(place: Place, tmp_path: Path, exchange: str) -> None:
    """The files have changed, the work in hand is being finished: who says then that it is to end means it."""
    with WorkProcess(tmp_path, "shop.json", "--url", place.url, "--reload", "--grace", "1") as process:
        process.says(": listening")
        place.publish(exchange, "k", b"stuck")
        eventually(lambda: notes(tmp_path) == ["stuck"])
        os.utime(tmp_path / "shop.json")
        eventually(lambda: place.consumers(f"{exchange}.s") == 0)
        assert process.stop() == 0
        assert "restarting" not in process.log


def test_terminal_shows_how_it_goes(place: Place, tmp_path: Path, exchange: str) -> None:
    """Issue 6: a progress line on a terminal."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "leveret", "work", "shop.json", "--url", place.url]
    process = subprocess.Popen(command, stdout=inner, stderr=inner, cwd=tmp_path)
    os.close(inner)
    said = ""
    try:
        deadline = time.monotonic() + 15
        published = False
        while "1 handled, 1 failed" not in said and time.monotonic() < deadline:
            said += os.read(outer, 4096).decode(errors="replace")
            if not published and ": listening" in said:
                published = True
                place.publish(exchange, "k", b"good", b"bad")
        assert "1 of 1 workers listening, 1 handled, 1 failed" in said
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(outer)


def test_schema_list_and_help_need_no_broker(tmp_path: Path, exchange: str) -> None:
    assert leveret_work(tmp_path, "--schema").stdout.startswith("{")
    assert f"{exchange}.s" in leveret_work(tmp_path, "--list", "shop.json").stdout
    done = leveret_work(tmp_path, "--help")
    assert done.returncode == 0
    for flag in ("--url", "--check", "--schema", "--list", "--strict", "--reload", "--retries", "--grace", "--metrics-port"):
        assert flag in done.stdout
