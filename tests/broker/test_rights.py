"""Rights: what they allow, that a change is felt at once, and that answers are remembered within bounds."""

from collections.abc import Callable
from functools import partial

import pytest

from leveret.broker.broker import Broker
from leveret.broker.patterns import BadPattern
from leveret.broker.rights import REMEMBERED_MAX, Rights
from leveret.errors import AccessRefused, NotFound, PreconditionFailed


@pytest.fixture
def rights() -> Rights:
    return Rights("u", "v")


def test_nothing_is_granted_at_first(rights: Rights) -> None:
    """SPEC §7.2 permissions"""
    assert not rights.granted
    assert [rights.pattern(permission) for permission in ("configure", "write", "read")] == ["", "", ""]
    assert not rights.allows("read", "q")
    assert not rights.allows("read", "")


def test_each_pattern_is_for_its_own_permission(rights: Rights) -> None:
    """SPEC §7.2 permissions"""
    rights.grant("^c", "^w", "^r")
    assert rights.granted
    assert [rights.pattern(permission) for permission in ("configure", "write", "read")] == ["^c", "^w", "^r"]
    allowed = {name: [p for p in ("configure", "write", "read") if rights.allows(p, name)] for name in ("c", "w", "r", "x")}
    assert allowed == {"c": ["configure"], "w": ["write"], "r": ["read"], "x": []}


def test_change_is_felt_though_answers_are_remembered(rights: Rights) -> None:
    """SPEC §7.5 revoking"""
    rights.grant(".*", ".*", ".*")
    assert rights.allows("read", "q")
    rights.grant(".*", ".*", "")
    assert not rights.allows("read", "q")
    rights.grant(".*", ".*", "^q$")
    assert rights.allows("read", "q")
    rights.revoke()
    assert not rights.allows("read", "q")
    assert not rights.granted


def test_bad_pattern_changes_nothing(rights: Rights) -> None:
    """SPEC §7.2 permissions: all three or none"""
    rights.grant("a", "b", "c")
    with pytest.raises(BadPattern):
        rights.grant(".*", ".*", "(")
    assert (rights.pattern("configure"), rights.allows("configure", "x")) == ("a", False)
    with pytest.raises(BadPattern):
        rights.grant_topics("t", "ok", "(")
    assert rights.topics == {}
    rights.check_topic("write", "t", "anything")


def test_answers_are_remembered_within_bounds(rights: Rights) -> None:
    """SPEC §8.8 no client makes memory grow"""
    rights.grant(".*", ".*", "")
    for number in range(REMEMBERED_MAX + 10):
        assert rights.allows("write", str(number))
    assert len(rights._known) <= REMEMBERED_MAX


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        # SPEC §7.2 permissions: the texts
        ("queue", "q", "write access to queue 'q' in vhost 'v' refused for user 'u'"),
        ("exchange", "x", "write access to exchange 'x' in vhost 'v' refused for user 'u'"),
        ("exchange", "", "write access to exchange 'amq.default' in vhost 'v' refused for user 'u'"),
    ],
)
def test_refusals(rights: Rights, kind: str, name: str, text: str) -> None:
    check = rights.check_queue if kind == "queue" else rights.check_exchange
    with pytest.raises(AccessRefused) as caught:
        check("write", name)
    assert str(caught.value) == text
    rights.grant("", "^(q|x|amq.default)$", "")
    check("write", name)


def test_topics_are_kept_as_they_were_written(rights: Rights) -> None:
    """SPEC §7.2 topic permissions"""
    rights.grant_topics("t", "^{username}", "{vhost}$")
    assert rights.topics == {"t": ("^{username}", "{vhost}$")}
    rights.check_topic("write", "t", "u.1")
    rights.check_topic("read", "t", "1.v")
    with pytest.raises(
        AccessRefused, match=r"^write access to topic '1\.v' in exchange 't' in vhost 'v' refused for user 'u'$"
    ):
        rights.check_topic("write", "t", "1.v")
    rights.revoke_topics("t")
    rights.revoke_topics("t")
    rights.check_topic("write", "t", "1.v")
    assert rights.topics == {}


# The broker


def test_rights_need_user_and_vhost(broker: Broker) -> None:
    """SPEC §7.2 permissions"""
    for user, vhost, text in (("nobody", "/", "user 'nobody' not found"), ("guest", "none", "vhost 'none' not found")):
        acts: list[Callable[[], None]] = [
            partial(broker.set_permissions, user, vhost, "", "", ""),
            partial(broker.clear_permissions, user, vhost),
            partial(broker.set_topic_permissions, user, vhost, "t", "", ""),
            partial(broker.clear_topic_permissions, user, vhost),
        ]
        for act in acts:
            with pytest.raises(NotFound) as caught:
                act()
            assert str(caught.value) == text


def test_bad_pattern_is_refused_with_its_reason(broker: Broker) -> None:
    """SPEC §7.2 permissions"""
    with pytest.raises(PreconditionFailed, match=r"^invalid regular expression: missing \): \(a$"):
        broker.set_permissions("guest", "/", "(a", "", "")
    with pytest.raises(PreconditionFailed, match=r"^invalid regular expression: missing \): \(a$"):
        broker.set_topic_permissions("guest", "/", "amq.topic", "", "(a")
    assert broker.users["guest"].rights["/"].allows("configure", "x")


def test_every_change_of_rights_raises_the_epoch(broker: Broker) -> None:
    """SPEC §7.5 revoking: remembered routes are dropped."""
    broker.add_user("u", "u")
    broker.add_vhost("v")
    epochs = [broker.epoch]
    changes: list[Callable[[], None]] = [
        partial(broker.set_permissions, "u", "/", ".*", ".*", ".*"),
        partial(broker.set_topic_permissions, "u", "/", "amq.topic", ".*", ".*"),
        partial(broker.clear_topic_permissions, "u", "/", "amq.topic"),
        partial(broker.clear_permissions, "u", "/"),
        partial(broker.delete_vhost, "v"),
        partial(broker.delete_user, "u"),
    ]
    for change in changes:
        change()
        epochs.append(broker.epoch)
    assert epochs == sorted(set(epochs))


def test_topics_of_one_exchange_are_cleared_alone(broker: Broker) -> None:
    """SPEC §7.2 topic permissions"""
    for exchange in ("a", "b", "c"):
        broker.set_topic_permissions("guest", "/", exchange, "", "")
    broker.clear_topic_permissions("guest", "/", "b")
    rights = broker.users["guest"].rights["/"]
    assert set(rights.topics) == {"a", "c"}
    broker.clear_topic_permissions("guest", "/")
    assert rights.topics == {}
