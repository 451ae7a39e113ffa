"""The fixtures for pytest, in runs of pytest of their own, and the README's example of them."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"

USED = """
import pika
import pytest

URLS = []


@pytest.mark.parametrize("number", range(3))
def test_each_test_has_a_fresh_vhost_of_one_broker(number, amqp_broker, amqp_url):
    assert amqp_url not in URLS
    URLS.append(amqp_url)
    assert {url.rpartition("/")[0] for url in URLS} == {amqp_broker.url.rpartition("/")[0]}
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("left behind", durable=True)
        channel.basic_publish("", "left behind", str(number).encode())
        assert channel.queue_declare("left behind", passive=True).method.message_count == 1


def test_connection_may_be_left_open(amqp_url):
    CONNECTIONS.append(pika.BlockingConnection(pika.URLParameters(amqp_url)))


CONNECTIONS = []


def test_then_it_was_closed_with_its_vhost():
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="is deleted"):
        CONNECTIONS[0].process_data_events(1)


def test_management_shows_that_no_other_vhost_is_left(amqp_broker, amqp_management_url, amqp_url):
    import base64, json, urllib.request

    assert amqp_management_url == amqp_broker.management_url
    where = amqp_management_url.replace("guest:guest@", "") + "/api/vhosts?columns=name"
    login = base64.b64encode(b"guest:guest").decode()
    with urllib.request.urlopen(urllib.request.Request(where, headers={"Authorization": "Basic " + login})) as answer:
        names = [vhost["name"] for vhost in json.load(answer)]
    assert names == ["/", amqp_url.rpartition("/")[2]]


@pytest.mark.parametrize("number", range(2))
def test_of_another_kind(amqp_management_url, number):
    URLS.append(amqp_management_url)
    assert URLS[-1] == amqp_management_url
"""

REPLACED = """
import pytest
from leveret.testing import Broker


@pytest.fixture(scope="session")
def amqp_broker():
    with Broker(heartbeat=7) as broker:
        yield broker


def test_settings_of_ones_own(amqp_url):
    import pika

    with pika.BlockingConnection(pika.URLParameters(amqp_url + "?heartbeat=7")) as connection:
        assert connection._impl.params.heartbeat == 7
"""

LOADED = """
import sys, threading


def test_nothing_of_it():
    names = [name for name in sys.modules if name.partition(".")[0] == "leveret"]
    assert sorted(names) == ["leveret", "leveret.testing", "leveret.testing.plugin"]
    assert threading.enumerate() == [threading.main_thread()]
"""


def pytest_run(folder: Path, text: str, *flags: str) -> str:
    """Run pytest on this text as somebody else would, who takes warnings for errors; what it says."""
    (folder / "test_sample.py").write_text(text)
    # Others that are installed here take seconds to load.
    others = [f"-pno:{name}" for name in ("schemathesis", "hypothesispytest", "anyio", "timeout", "cacheprovider")]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *others, *flags, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_fresh_vhost_for_each_test_and_one_broker_for_the_run(tmp_path: Path) -> None:
    assert "8 passed" in pytest_run(tmp_path, USED)


def test_broker_with_other_settings_takes_the_place_of_the_usual(tmp_path: Path) -> None:
    assert "1 passed" in pytest_run(tmp_path, REPLACED)


def test_plugin_loads_nothing_for_those_who_do_not_use_it(tmp_path: Path) -> None:
    assert "1 passed" in pytest_run(tmp_path, LOADED)


def test_fixtures_are_described(tmp_path: Path) -> None:
    said = pytest_run(tmp_path, LOADED, "--fixtures")
    for name in ("amqp_broker [session scope]", "amqp_url", "amqp_management_url [session scope]"):
        assert re.search(rf"^{re.escape(name)} -- .*\n    [A-Z].*\.$", said, re.MULTILINE), said


def test_example_of_the_readme_passes_as_it_stands_there(tmp_path: Path) -> None:
    section = README.read_text(encoding="utf-8").partition("## In your tests")[2].partition("\n## ")[0]
    fixture, other = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(fixture.partition("def ")[2].splitlines()) == 6
    assert "1 passed" in pytest_run(tmp_path, fixture)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", other], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"amqp://guest:guest@127\.0\.0\.1:\d+/%2F\n", done.stdout)
