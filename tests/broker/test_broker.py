"""The broker: its vhosts, its users and its epoch."""

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.settings import Settings
from leveret.errors import NotAllowed


def test_first_start() -> None:
    broker = default_broker()
    assert (list(broker.vhosts), list(broker.users)) == (["/"], ["guest"])
    guest = broker.users["guest"]
    assert (guest.tags, guest.loopback_only) == (("administrator",), True)
    assert guest.has_password(b"guest")


def test_settings_are_given_or_default() -> None:
    settings = Settings()
    assert default_broker(settings).settings is settings
    assert Broker().settings.frame_max == 131_072


def test_vhost_is_found_or_refused() -> None:
    broker = default_broker()
    user = broker.users["guest"]
    assert broker.vhost("/", user).name == "/"
    with pytest.raises(NotAllowed, match=r"^vhost nowhere not found$"):
        broker.vhost("nowhere", user)


def test_users_are_added_without_rights_to_come_from_anywhere_or_not() -> None:
    broker = Broker()
    user = broker.add_user("u", "secret", ("monitoring",))
    assert broker.users == {"u": user}
    assert (user.tags, user.loopback_only) == (("monitoring",), False)
    assert user.has_password(b"secret")


def test_every_change_raises_the_epoch() -> None:
    broker = default_broker()
    vhost = broker.vhosts["/"]
    epochs = [broker.epoch]
    for change in (
        lambda: vhost.declare_exchange("x", "direct"),
        lambda: vhost.declare_queue("q"),
        lambda: vhost.bind("x", vhost.queues["q"], "k", {}),
        lambda: vhost.unbind("x", vhost.queues["q"], "k", {}, None),
        lambda: vhost.delete_queue("q", None),
        lambda: vhost.delete_exchange("x"),
        broker.changed,
    ):
        change()
        epochs.append(broker.epoch)
    assert epochs == sorted(set(epochs))


def test_what_changes_nothing_leaves_the_epoch() -> None:
    broker = default_broker()
    vhost = broker.vhosts["/"]
    queue = vhost.declare_queue("q")
    vhost.bind("amq.direct", queue, "k", {})
    epoch = broker.epoch
    vhost.declare_queue("q")
    vhost.bind("amq.direct", queue, "k", {})
    vhost.unbind("amq.direct", queue, "other", {}, None)
    vhost.declare_exchange("amq.direct", "direct", durable=True)
    vhost.delete_queue("nowhere", None)
    vhost.delete_exchange("nowhere")
    assert broker.epoch == epoch
