"""Methods: a table of payloads used both ways, and what is refused."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.errors import AMQPError, CommandInvalid, FrameError, SyntaxFault
from leveret.wire import spec
from leveret.wire.methods import decode_method, encode_method, write_method
from leveret.wire.spec import METHODS, Fields, Method
from leveret.wire.values import SignedInt

PAYLOADS: list[tuple[Method, bytes]] = [
    (
        spec.ConnectionStart(0, 9, {"a": None}, b"PLAIN AMQPLAIN", b"en_US"),
        b"\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x03\x01aV\x00\x00\x00\x0ePLAIN AMQPLAIN\x00\x00\x00\x05en_US",
    ),
    (spec.ConnectionTune(2047, 131072, 60), b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"),
    (spec.ConnectionOpen("/"), b"\x00\x0a\x00\x28\x01/\x00\x00"),
    (spec.ConnectionClose(541, "ż", 50, 10), b"\x00\x0a\x00\x32\x02\x1d\x02\xc5\xbc\x00\x32\x00\x0a"),
    (spec.ChannelOpen(), b"\x00\x14\x00\x0a\x00"),
    (spec.ChannelOpenOk(), b"\x00\x14\x00\x0b\x00\x00\x00\x00"),
    (spec.ChannelFlow(True), b"\x00\x14\x00\x14\x01"),
    (spec.AccessRequest("/data", passive=True, read=True), b"\x00\x1e\x00\x0a\x05/data\x12"),
    (
        spec.ExchangeDeclare("x", "topic", durable=True, no_wait=True),
        b"\x00\x28\x00\x0a\x00\x00\x01x\x05topic\x12\x00\x00\x00\x00",
    ),
    (
        spec.QueueDeclare("q", exclusive=True, auto_delete=True, arguments={"x": SignedInt(5)}),
        b"\x00\x32\x00\x0a\x00\x00\x01q\x0c\x00\x00\x00\x07\x01xI\x00\x00\x00\x05",
    ),
    (spec.QueueDeclareOk("q", 1, 2), b"\x00\x32\x00\x0b\x01q\x00\x00\x00\x01\x00\x00\x00\x02"),
    (spec.BasicQos(0, 10, global_=True), b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x01"),
    (spec.BasicPublish("x", "key", mandatory=True), b"\x00\x3c\x00\x28\x00\x00\x01x\x03key\x01"),
    (spec.BasicPublish("x", "\udcff"), b"\x00\x3c\x00\x28\x00\x00\x01x\x01\xff\x00"),
    (
        spec.BasicDeliver("t", 2**64 - 1, True, "", "q"),
        b"\x00\x3c\x00\x3c\x01t\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01q",
    ),
    (spec.BasicNack(1, requeue=True), b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x01\x02"),
    (spec.TxSelect(), b"\x00\x5a\x00\x0a"),
]
PAYLOAD_NAMES = [method.NAME for method, _ in PAYLOADS]


def decode(payload: bytes) -> Method:
    return decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))


@pytest.mark.parametrize(("method", "payload"), PAYLOADS, ids=PAYLOAD_NAMES)
def test_method_has_its_octets_both_ways(method: Method, payload: bytes) -> None:
    assert encode_method(method) == payload
    assert decode(payload) == method
    assert decode_method(method.INDEX, b"before" + payload + b"after", 10, 6 + len(payload)) == method


@pytest.mark.parametrize(("method", "payload"), PAYLOADS, ids=PAYLOAD_NAMES)
def test_method_cut_anywhere_or_too_long_is_a_frame_error(method: Method, payload: bytes) -> None:
    for wrong in (*(payload[:size] for size in range(4, len(payload))), payload + b"\x00"):
        with pytest.raises(FrameError, match="cannot decode <<"):
            decode(wrong)


def test_frame_is_appended_whole() -> None:
    out = bytearray(b"before")
    write_method(out, 258, spec.ChannelCloseOk())
    assert out == b"before\x01\x01\x02\x00\x00\x00\x04\x00\x14\x00\x29\xce"


def test_nothing_is_appended_of_a_method_that_cannot_be_encoded() -> None:
    out = bytearray()
    with pytest.raises(ValueError):
        write_method(out, 1, spec.QueueDeclareOk("q" * 256))
    assert out == b""


REFUSED: dict[str, tuple[bytes, AMQPError]] = {
    "octets left over": (
        b"\x00\x32\x00\x0a\x00\x00\x00\x08\x00\x00\x00\x00zz",
        FrameError("cannot decode <<0,0,0,8,0,0,0,0,122,122>>"),
    ),
    "no fields at all": (b"\x00\x32\x00\x0a", FrameError("cannot decode <<>>")),
    "name that is not UTF-8": (
        b"\x00\x32\x00\x0a\x00\x00\x01\xff\x08\x00\x00\x00\x00",
        FrameError("Malformed UTF-8 in shortstr"),
    ),
    "reserved string that is not UTF-8": (b"\x00\x14\x00\x0a\x01\xff", FrameError("Malformed UTF-8 in shortstr")),
    "malformed table": (
        b"\x00\x32\x00\x0a\x00\x00\x00\x08\x00\x00\x00\x03\x01aZ",
        SyntaxFault("unknown type 90 of a field's value"),
    ),
    "unknown method": (b"\x00\x3c\x00\x4d", CommandInvalid("unimplemented method")),
    "unknown class": (b"\x00\x63\x00\x0a", CommandInvalid("unimplemented method")),
}


@pytest.mark.parametrize(("payload", "error"), REFUSED.values(), ids=REFUSED)
def test_refused_with_its_code_and_text(payload: bytes, error: AMQPError) -> None:
    with pytest.raises(type(error)) as caught:
        decode(payload)
    assert caught.value.reply_text == error.reply_text


def test_only_the_octets_that_fit_a_reply_are_shown() -> None:
    with pytest.raises(FrameError) as caught:
        decode(b"\x00\x5a\x00\x0a" + bytes(100_000))
    assert len(str(caught.value)) < 1000
    assert len(caught.value.reply_text) == 255


@pytest.mark.parametrize(
    "method",
    [
        spec.ConnectionTune(65536),
        spec.ConnectionTune(-1),
        spec.BasicAck(2**64),
        spec.BasicConsumeOk("ż" * 128),
        spec.QueueDeclare(arguments={"a": 2**63}),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_wire_is_a_value_error(method: Method) -> None:
    with pytest.raises(ValueError):
        encode_method(method)


@dataclass(slots=True)
class NineBits(Method):
    INDEX: ClassVar[int] = 0x7FFF0001
    NAME: ClassVar[str] = "test.nine-bits"
    FIELDS: ClassVar[Fields] = (("first", "bit"), *[("", "bit")] * 6, ("eighth", "bit"), ("ninth", "bit"))

    first: bool = False
    eighth: bool = False
    ninth: bool = False


def test_a_ninth_bit_takes_another_octet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, NineBits.INDEX, NineBits)
    for method, payload in (
        (NineBits(True, True, True), b"\x7f\xff\x00\x01\x81\x01"),
        (NineBits(eighth=True), b"\x7f\xff\x00\x01\x80\x00"),
    ):
        assert encode_method(method) == payload
        assert decode(payload) == method


calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are busy at times

FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": st.text(max_size=60),
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1) | st.text(), max_size=3),
}
any_method = st.sampled_from(list(METHODS.values())).flatmap(
    lambda kind: st.builds(kind, **{name: FIELD_VALUES[field_kind] for name, field_kind in kind.FIELDS if name})
)


@calm
@given(any_method)
def test_decoding_gives_what_was_encoded(method: Method) -> None:
    assert decode(encode_method(method)) == method


@calm
@given(any_method, st.data())
def test_damaged_methods_are_refused_in_a_known_way(method: Method, data: st.DataObject) -> None:
    payload = bytearray(encode_method(method))
    at = data.draw(st.integers(4, len(payload)))
    payload[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        decoded = decode(bytes(payload))
    except (FrameError, SyntaxFault):
        return
    assert type(decoded) is type(method)
