"""Logins, counted."""

from leveret.broker.logins import NAME_MAX, SOURCES_MAX, Logins


def test_protocols_are_counted_apart() -> None:
    logins = Logins()
    logins.count("amqp091", "127.0.0.1", "guest", succeeded=True)
    logins.count("amqp091", "127.0.0.1", "guest", succeeded=False)
    logins.count("http", "127.0.0.1", "guest", succeeded=False)
    counts = {name: (one.total, one.succeeded, one.failed) for name, one in logins.protocols.items()}
    assert counts == {"amqp091": (2, 1, 1), "http": (1, 0, 1)}
    assert logins.sources == {}
    logins.reset()
    assert logins.protocols == {}


def test_sources_are_bounded() -> None:
    logins = Logins(by_source=True)
    logins.count("http", "::1", "regular", succeeded=True)
    for number in range(SOURCES_MAX + 100):
        logins.count("amqp091", "10.0.0.1", f"user {number}", succeeded=False)
        if number % 1000 == 0:
            logins.count("http", "::1", "regular", succeeded=True)
    assert len(logins.sources) == SOURCES_MAX
    assert ("10.0.0.1", "user 0", "amqp091") not in logins.sources
    assert logins.sources["::1", "regular", "http"].total == 12
    logins.count("http", "::1", "x" * 5000, succeeded=False)
    assert ("::1", "x" * NAME_MAX, "http") in logins.sources
    logins.count("amqp091", "", "", succeeded=False)
    assert ("", "", "amqp091") not in logins.sources
