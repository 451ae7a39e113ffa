"""The generated methods: up to date with the generator, and with the ids that clients know."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.wire import spec
from leveret.wire.methods import decode_method, encode_method
from leveret.wire.spec import METHODS, Method

GENERATOR = Path(__file__).resolve().parents[2] / "tools" / "generate_spec.py"

# The class and method ids of the AMQP 0-9-1 reference and of RabbitMQ's extensions to it.
IDS = {
    "connection": "10: 10 start 11 start-ok 20 secure 21 secure-ok 30 tune 31 tune-ok 40 open 41 open-ok 50 close "
    "51 close-ok 60 blocked 61 unblocked 70 update-secret 71 update-secret-ok",
    "channel": "20: 10 open 11 open-ok 20 flow 21 flow-ok 40 close 41 close-ok",
    "access": "30: 10 request 11 request-ok",
    "exchange": "40: 10 declare 11 declare-ok 20 delete 21 delete-ok 30 bind 31 bind-ok 40 unbind 51 unbind-ok",
    "queue": "50: 10 declare 11 declare-ok 20 bind 21 bind-ok 30 purge 31 purge-ok 40 delete 41 delete-ok 50 unbind "
    "51 unbind-ok",
    "basic": "60: 10 qos 11 qos-ok 20 consume 21 consume-ok 30 cancel 31 cancel-ok 40 publish 50 return 60 deliver "
    "70 get 71 get-ok 72 get-empty 80 ack 90 reject 100 recover-async 110 recover 111 recover-ok 120 nack",
    "confirm": "85: 10 select 11 select-ok",
    "tx": "90: 10 select 11 select-ok 20 commit 21 commit-ok 30 rollback 31 rollback-ok",
}


def known_indexes() -> dict[int, str]:
    known = {}
    for class_name, text in IDS.items():
        class_id, methods = text.split(": ")
        words = methods.split()
        for number, name in zip(words[::2], words[1::2], strict=True):
            known[int(class_id) << 16 | int(number)] = f"{class_name}.{name}"
    return known


def test_file_is_what_the_generator_writes() -> None:
    subprocess.run([sys.executable, str(GENERATOR), "--check"], check=True)


def test_every_method_has_its_known_id() -> None:
    assert {index: method.NAME for index, method in METHODS.items()} == known_indexes()


def test_content_follows_four_methods() -> None:
    content = {method.NAME for method in METHODS.values() if method.CONTENT}
    assert content == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


@pytest.mark.parametrize(
    ("constant", "method"),
    [
        (spec.BASIC_PUBLISH, spec.BasicPublish),
        (spec.BASIC_ACK, spec.BasicAck),
        (spec.BASIC_NACK, spec.BasicNack),
        (spec.BASIC_REJECT, spec.BasicReject),
        (spec.BASIC_DELIVER, spec.BasicDeliver),
        (spec.BASIC_GET_OK, spec.BasicGetOk),
        (spec.BASIC_RETURN, spec.BasicReturn),
    ],
)
def test_hot_indexes(constant: int, method: type[Method]) -> None:
    assert constant == method.INDEX
    assert METHODS[constant] is method


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.NAME)
def test_every_method_round_trips_with_its_defaults(method: type[Method]) -> None:
    payload = encode_method(method())
    assert payload[:4] == method.INDEX.to_bytes(4, "big")
    assert decode_method(method.INDEX, payload, 4, len(payload)) == method()
    assert not hasattr(method(), "__dict__")


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.NAME)
def test_attributes_are_the_fields_that_are_not_reserved(method: type[Method]) -> None:
    assert list(inspect.signature(method).parameters) == [name for name, _ in method.FIELDS if name]
