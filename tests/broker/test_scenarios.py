"""The routing scenarios of the seeds: PDF events, agreements, images, sport news, logs, and images by their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.vhost import VirtualHost
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.broker.conftest import Routes


def queues(vhost: VirtualHost, exchange: str, bindings: dict[str, str]) -> None:
    """Declare each queue and bind it with its key."""
    for name, key in bindings.items():
        vhost.bind(exchange, vhost.declare_queue(name), key, {})


@pytest.mark.parametrize(
    ("key", "reached"),
    [
        ("pdf_create", ["create_pdf_queue"]),
        ("pdf_log", ["create_log_queue"]),
        ("pdf_delete", []),
        ("pdf", []),
        ("", []),
    ],
)
def test_pdf_events(vhost: VirtualHost, routes: Routes, key: str, reached: list[str]) -> None:
    """SPEC §3.6 PDF events, a direct exchange: binding key = routing key; what fits no binding is dropped."""
    vhost.declare_exchange("pdf_events", "direct")
    queues(vhost, "pdf_events", {"create_pdf_queue": "pdf_create", "create_log_queue": "pdf_log"})
    assert routes("pdf_events", key) == reached


def test_several_queues_with_the_same_key_get_the_same_messages(vhost: VirtualHost, routes: Routes) -> None:
    """Publisher 1 reaches queues 1 and 2, publisher 2 queues 2 and 3."""
    vhost.declare_exchange("x", "direct")
    queues(vhost, "x", {"queue 1": "publisher 1", "queue 2": "publisher 1"})
    queues(vhost, "x", {"queue 2": "publisher 2", "queue 3": "publisher 2"})
    assert routes("x", "publisher 1") == ["queue 1", "queue 2"]
    assert routes("x", "publisher 2") == ["queue 2", "queue 3"]


@pytest.mark.parametrize(
    ("key", "reached"),
    [
        ("agreements.eu.berlin", ["all_agreements", "berlin_agreements"]),
        ("agreements.eu.berlin.headstore", ["all_agreements", "berlin_agreements"]),
        ("agreements.us", ["all_agreements"]),
        ("agreements.eu.stockholm", ["all_agreements"]),
        ("agreements.eu.berlin.store", ["all_agreements", "berlin_agreements", "store_agreements"]),
        ("agreements.eu.stockholm.store", ["all_agreements", "store_agreements"]),
        ("agreements.us.boston.store", ["all_agreements"]),
        ("agreements", ["all_agreements"]),
        ("disagreements.eu.berlin", []),
    ],
)
def test_agreements(vhost: VirtualHost, routes: Routes, key: str, reached: list[str]) -> None:
    """SPEC §3.6 agreements."""
    vhost.declare_exchange("agreements", "topic")
    queues(
        vhost,
        "agreements",
        {
            "berlin_agreements": "agreements.eu.berlin.#",
            "all_agreements": "agreements.#",
            "store_agreements": "agreements.eu.*.store",
        },
    )
    assert sorted(routes("agreements", key)) == reached


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        ("agreements.eu.berlin.b.store", True),
        ("agreements.x.y.b.z", True),
        ("agreements.x.y.c.z", False),
        ("agreements.x.y.b", False),
        ("agreements.x.y.b.z.z", False),
    ],
)
def test_agreements_with_b_as_the_fourth_word(vhost: VirtualHost, routes: Routes, key: str, fits: bool) -> None:
    """SPEC §3.6 agreements."""
    vhost.declare_exchange("agreements", "topic")
    queues(vhost, "agreements", {"b": "agreements.*.*.b.*"})
    assert routes("agreements", key) == (["b"] if fits else [])


@pytest.mark.parametrize(
    ("key", "reached"),
    [
        ("image.new.profile", ["audit", "face detection", "hashing", "profile directory"]),
        ("image.new.gallery", ["audit", "hashing"]),
        ("image.delete.profile", ["audit", "profile directory", "removal"]),
        ("image.delete.gallery", ["audit", "removal"]),
        ("image.resize", ["audit"]),
    ],
)
def test_images(vhost: VirtualHost, routes: Routes, key: str, reached: list[str]) -> None:
    """SPEC §3.6 images."""
    vhost.declare_exchange("images", "topic")
    queues(
        vhost,
        "images",
        {
            "face detection": "image.new.profile",
            "hashing": "image.new.#",
            "profile directory": "#.profile",
            "removal": "image.delete.*",
            "audit": "image.#",
        },
    )
    assert sorted(routes("images", key)) == reached


def test_topic_exchange_stands_in_for_direct_and_fanout(vhost: VirtualHost, routes: Routes) -> None:
    vhost.declare_exchange("x", "topic")
    queues(vhost, "x", {"like direct": "image.new.profile", "like fanout": "#"})
    assert sorted(routes("x", "image.new.profile")) == ["like direct", "like fanout"]
    assert routes("x", "image.new") == ["like fanout"]
    assert routes("x", "") == ["like fanout"]


@pytest.mark.parametrize("key", ["", "football", "anything.at.all"])
def test_sport_news(vhost: VirtualHost, routes: Routes, key: str) -> None:
    """SPEC §3.6 sport news, a fanout exchange: everybody gets everything, the keys are ignored."""
    vhost.declare_exchange("sport_news", "fanout")
    names = [f"Mobile client queue {letter}" for letter in "ABC"]
    queues(vhost, "sport_news", dict(zip(names, ("", "football", "tennis"), strict=True)))
    assert routes("sport_news", key) == names


@pytest.mark.parametrize(
    ("key", "reached"), [("anonymous.info", ["info"]), ("kernel.info", ["info"]), ("info", []), ("a.b.info", [])]
)
def test_topic_logs(vhost: VirtualHost, routes: Routes, key: str, reached: list[str]) -> None:
    vhost.declare_exchange("topic_logs", "topic")
    queues(vhost, "topic_logs", {"info": "*.info"})
    assert routes("topic_logs", key) == reached


IMAGE: Table = {"source": "profile", "object": "image", "action": "new"}


@pytest.mark.parametrize(
    ("headers", "reached"),
    [
        (IMAGE, ["all", "any"]),
        ({**IMAGE, "size": 5}, ["all", "any"]),
        ({"source": "profile", "object": "image"}, ["any"]),
        ({**IMAGE, "action": "delete"}, ["any"]),
        ({"object": "video"}, []),
        ({}, []),
    ],
)
def test_images_by_their_headers(vhost: VirtualHost, routes: Routes, headers: Table, reached: list[str]) -> None:
    """SPEC §3.6 images: by their headers."""
    vhost.declare_exchange("testing", "headers")
    for form in ("all", "any"):
        vhost.bind("testing", vhost.declare_queue(form), "", {"x-match": form, **IMAGE})
    assert routes("testing", "", headers) == reached


def test_exchange_to_exchange(vhost: VirtualHost, routes: Routes) -> None:
    """Events go to a distributed topic exchange and to one that keeps them all."""
    vhost.declare_exchange("events", "topic")
    vhost.bind("events", vhost.declare_exchange("distributed-events", "topic"), "image.#", {})
    vhost.bind("events", vhost.declare_exchange("every-event", "fanout"), "#", {})
    queues(vhost, "distributed-events", {"profile images": "#.profile"})
    queues(vhost, "every-event", {"archive": ""})
    assert sorted(routes("events", "image.new.profile")) == ["archive", "profile images"]
    assert routes("events", "image.new.gallery") == ["archive"]
    assert routes("events", "video.new.profile") == ["archive"]


def test_requests_and_replies(vhost: VirtualHost, routes: Routes) -> None:
    """Two direct exchanges: one for requests, one that finds each requester's own queue."""
    vhost.declare_exchange("direct-rpc-requests", "direct")
    vhost.declare_exchange("rpc-replies", "direct")
    queues(vhost, "direct-rpc-requests", {"detect-faces": "detect-faces"})
    me = object()
    mine = vhost.declare_queue("", owner=me, auto_delete=True)
    vhost.bind("rpc-replies", mine, mine.name, {})
    assert routes("direct-rpc-requests", "detect-faces") == ["detect-faces"]
    assert routes("rpc-replies", mine.name) == [mine.name]
