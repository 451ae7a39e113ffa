"""One class for each reply code, and the text that goes with it."""

import inspect

import pytest

from leveret import errors
from leveret.errors import REPLY_TEXT_MAX_BYTES, AMQPError, InternalError, NotFound

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, AMQPError) and value is not AMQPError
]

# rabbit_framing_amqp_0_9_1:lookup_amqp_exception, less 312, which is said in a basic.return and closes nothing
RABBITMQ = {
    320: ("CONNECTION_FORCED", True),
    403: ("ACCESS_REFUSED", False),
    404: ("NOT_FOUND", False),
    405: ("RESOURCE_LOCKED", False),
    406: ("PRECONDITION_FAILED", False),
    501: ("FRAME_ERROR", True),
    502: ("SYNTAX_ERROR", True),
    503: ("COMMAND_INVALID", True),
    504: ("CHANNEL_ERROR", True),
    505: ("UNEXPECTED_FRAME", True),
    506: ("RESOURCE_ERROR", True),
    530: ("NOT_ALLOWED", True),
    540: ("NOT_IMPLEMENTED", True),
    541: ("INTERNAL_ERROR", True),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_codes_close_what_they_close_in_rabbitmq(kind: type[AMQPError]) -> None:
    assert (kind.name, kind.hard) == RABBITMQ[kind.code]


def test_every_code_has_a_class() -> None:
    assert {kind.code for kind in CLASSES} == set(RABBITMQ)


def test_text_is_name_and_explanation() -> None:
    assert NotFound("no queue 'q'").reply_text == "NOT_FOUND - no queue 'q'"
    assert InternalError().reply_text == "INTERNAL_ERROR"


@pytest.mark.parametrize("size", [240, 243])
def test_text_that_fits_is_whole(size: int) -> None:
    text = NotFound("q" * size).reply_text
    assert text == "NOT_FOUND - " + "q" * size
    assert len(text) <= REPLY_TEXT_MAX_BYTES


def test_long_text_is_cut() -> None:
    text = NotFound("q" * 244).reply_text
    assert text == "NOT_FOUND - " + "q" * 240 + "..."
    assert len(text) == REPLY_TEXT_MAX_BYTES


def test_text_is_cut_between_characters() -> None:
    text = NotFound("x" + "ж" * 200).reply_text
    assert text.endswith("ж...")
    assert len(text.encode()) <= REPLY_TEXT_MAX_BYTES


def test_text_may_have_any_octets() -> None:
    """A name on the wire may be any octets, which are surrogates in text."""
    for name in ("\udcff", "\udcff" * 300):
        assert len(NotFound(f"no exchange '{name}'").reply_text.encode("utf-8", "surrogateescape")) <= REPLY_TEXT_MAX_BYTES
