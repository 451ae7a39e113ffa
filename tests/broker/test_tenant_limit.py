"""Limits of vhosts and users: which are refused, and when one is reached."""

from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.tenant_limit import reached
from leveret.errors import PreconditionFailed


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        # SPEC §7.2 user limits, §7.1 vhost limits: RabbitMQ's texts
        ({"max-connections": "5"}, 'max-connections should be a number, actually was <<"5">>'),
        ({"max-connections": True}, "max-connections should be a number, actually was true"),
        ({"max-connections": 1.5}, "max-connections should be a number, actually was 1.5"),
        ({"max-things": 5}, 'Unrecognised terms [{<<"max-things">>,5}] in {}'),
        (5, "{} not a list 5"),
    ],
)
def test_bad_limits_are_refused(limits: Any, text: str, broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    for title, set_limits in (
        ("limits", vhost.set_limits),
        ("limits", lambda limits: vhost.parameters.set("vhost-limits", "limits", limits)),
        ("user-limits", lambda limits: broker.set_user_limits("guest", limits)),
    ):
        with pytest.raises(PreconditionFailed) as caught:
            set_limits(limits)
        assert str(caught.value) == text.replace("{}", title)
    assert (vhost.limits, vhost.parameters.values, broker.users["guest"].limits) == ({}, {}, {})


@pytest.mark.parametrize(
    ("limit", "count", "is_reached"),
    [(None, 10**6, False), (-1, 10**6, False), (0, 0, True), (1, 0, False), (1, 1, True), (1, 2, True)],
)
def test_reached(limit: int | None, count: int, is_reached: bool) -> None:
    """SPEC §7.1 vhost limits, §7.2 user limits"""
    assert reached(limit, count) is is_reached
