"""Logins of the web page."""

import pytest

from leveret.auth import session
from leveret.auth.session import LIFETIME_MS, Sessions
from leveret.broker.broker import Broker, default_broker


@pytest.fixture
def broker() -> Broker:
    return default_broker()


def test_session_is_good_for_eight_hours(broker: Broker) -> None:
    sessions = Sessions()
    guest = broker.users["guest"]
    value = sessions.begin(guest, 0)
    assert sessions.find(value, broker.users, LIFETIME_MS - 1) is guest
    assert sessions.find(value, broker.users, LIFETIME_MS) is None
    assert len(sessions) == 0


@pytest.mark.parametrize("value", ["", "guess", "\udcff"])
def test_nothing_else_is_a_session(broker: Broker, value: str) -> None:
    sessions = Sessions()
    sessions.begin(broker.users["guest"], 0)
    assert sessions.find(value, broker.users, 0) is None


def test_session_ends_with_its_password(broker: Broker) -> None:
    sessions = Sessions()
    value = sessions.begin(broker.users["guest"], 0)
    broker.add_user("guest", "other")
    assert sessions.find(value, broker.users, 0) is None


def test_session_ends_with_its_user(broker: Broker) -> None:
    """Also if another one of the same name and password is made."""
    sessions = Sessions()
    guest = broker.users["guest"]
    value, stored = sessions.begin(guest, 0), guest.password_hash
    broker.delete_user("guest")
    broker.add_hashed_user("guest", stored, guest.hashing)
    assert sessions.find(value, broker.users, 0) is None


def test_session_can_be_ended(broker: Broker) -> None:
    sessions = Sessions()
    value = sessions.begin(broker.users["guest"], 0)
    sessions.end(value)
    sessions.end(value)
    assert sessions.find(value, broker.users, 0) is None


def test_of_too_many_the_oldest_ends(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SESSIONS_MAX", 2)
    sessions = Sessions()
    values = [sessions.begin(broker.users["guest"], 0) for _ in range(3)]
    assert [sessions.find(value, broker.users, 0) is not None for value in values] == [False, True, True]


def test_sessions_outlive_the_broker_where_they_are_kept(broker: Broker) -> None:
    kept: list[str] = []
    sessions = Sessions("", kept.append)
    value, ended = (sessions.begin(broker.users["guest"], 0) for _ in range(2))
    sessions.end(ended)
    assert value not in kept[-1]
    assert broker.users["guest"].password_hash not in kept[-1]
    again = default_broker()
    again.users["guest"].password_hash = broker.users["guest"].password_hash
    later = Sessions(kept[-1], kept.append)
    assert later.find(value, again.users, LIFETIME_MS - 1) is again.users["guest"]
    assert later.find(ended, again.users, 0) is None
    again.add_user("guest", "other")
    assert later.find(value, again.users, 0) is None


@pytest.mark.parametrize("kept", ["{", "[]", '{"a": 1}', "\ufffd"])
def test_what_is_kept_and_damaged_is_said_and_left_out(kept: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(Sessions(kept)) == 0
    assert "cannot be read" in caplog.text
