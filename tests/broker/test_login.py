"""One login, as it is decided."""

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.login import INVALID, LOCAL_ONLY, Login
from leveret.broker.login_guard import LoginGuard


@pytest.fixture
def broker() -> Broker:
    broker = default_broker()
    broker.add_user("shop", "secret")
    return broker


def tried(broker: Broker, name: str, password: bytes, address: str = "192.0.2.1") -> Login:
    login = Login(broker, name, password, address)
    login.begin(0)
    return login


def test_the_right_password_is_accepted_at_once(broker: Broker) -> None:
    login = tried(broker, "shop", b"secret")
    assert (login.done, login.refusal, login.user) == (True, "", broker.users["shop"])


@pytest.mark.parametrize(("name", "password"), [("shop", b"wrong"), ("nobody", b"secret"), ("shop", b""), ("", b"")])
def test_anything_else_is_refused(broker: Broker, name: str, password: bytes) -> None:
    assert tried(broker, name, password).refusal == INVALID


def test_the_password_is_forgotten_with_the_decision(broker: Broker) -> None:
    assert tried(broker, "shop", b"secret").password == b""
    assert tried(broker, "shop", b"wrong").password == b""


def test_guest_comes_from_this_machine_only(broker: Broker) -> None:
    assert tried(broker, "guest", b"guest").refusal == LOCAL_ONLY
    assert tried(broker, "guest", b"guest", "127.0.0.1").refusal == ""


def test_after_too_many_failures_even_the_right_password_is_not_looked_at(broker: Broker) -> None:
    broker.guard = LoginGuard(2)
    for _ in range(2):
        assert tried(broker, "shop", b"wrong").wait_ms == 0
    login = tried(broker, "shop", b"secret")
    assert (login.wait_ms, login.refusal) == (1001, "- too many failed logins; the next one is looked at in 1001 ms")
    assert tried(broker, "shop", b"secret", "198.51.100.7").refusal == ""


def test_what_is_decided_later_is_told(broker: Broker) -> None:
    waiting: list[Login] = []
    broker.authenticate = waiting.append
    told: list[str] = []
    login = tried(broker, "shop", b"secret")
    login.on_done = lambda: told.append(login.refusal)
    assert not login.done
    waiting[0].accept(broker.users["shop"])
    assert (login.done, told) == (True, [""])
