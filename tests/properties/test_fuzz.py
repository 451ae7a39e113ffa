"""Nothing that a client can send makes the broker fail, lie, leak, or disturb another client.

The suite feeds about 200,000 broken frames and tables, always the same ones. For a long run set the number of frames, and
another seed for other frames:

    FUZZ_FRAMES=5000000 FUZZ_SEED=1 python -m pytest -q tests/properties/test_fuzz.py

A failure names the seed of the round that failed; `random.Random` of it makes the same round again.
"""

import gc
import logging
import os
import random
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import observer
from tests.properties.dialogue import DIALOGUES, HANDSHAKE, PROTOCOL_HEADER, Frame, encode, handshake, method
from tests.properties.faults import MAKERS, Maker
from tests.properties.lab import Client, Lab, cuts_of
from tests.properties.mutator import MUTATIONS, Mutation, apply, mutate, nested, random_table
from tests.properties.observer import Observer

from leveret.broker.broker import default_broker
from leveret.errors import SyntaxFault
from leveret.protocol.states import RUNNING
from leveret.wire import spec
from leveret.wire.values import decode_table, encode_table

FRAMES = int(os.environ.get("FUZZ_FRAMES", "200000"))
SEED = int(os.environ.get("FUZZ_SEED", "0")) << 32
BLOCKS = 8
FAULTS_EACH = FRAMES // 5 // len(MAKERS)
DIALOGUE_FRAMES = FRAMES * 3 // 5 // BLOCKS
TABLES = FRAMES // 5
HANDSHAKES = FRAMES // 40

OPENED = HANDSHAKE + method(1, spec.ChannelOpen()).encode()


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """A line for each of so many faults would take longer than the faults."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("name", DIALOGUES)
def test_dialogue_is_valid_as_it_stands(lab: Lab, name: str) -> None:
    seen = lab.run(encode(name, DIALOGUES[name]))
    assert seen.close is None
    assert seen.closes == []


@pytest.mark.parametrize("name", DIALOGUES)
def test_dialogue_means_the_same_wherever_it_is_cut(lab: Lab, name: str) -> None:
    data = encode(name, DIALOGUES[name])
    whole = said(lab.run(data))
    assert said(lab.run(data, range(len(data)))) == whole
    for cut in range(len(data) % 5, len(data), 5):
        assert said(lab.run(data, [cut])) == whole, f"cut at {cut}"


def said(seen: Observer) -> list[tuple[int, spec.Method]]:
    """What was sent, without confirms: those are coalesced according to the cuts."""
    return [(channel, one) for channel, one in seen.methods if not isinstance(one, spec.BasicAck)]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_fault_is_answered_with_its_code(lab: Lab, maker: Maker) -> None:
    for seed in range(SEED, SEED + FAULTS_EACH):
        rng = random.Random(seed)
        fault = maker(rng)
        data = b"".join([frame.encode() for frame in fault.frames])
        seen = run(lab, seed, data, cuts_of(rng, len(data)), OPENED)
        if fault.channel:
            assert (seen.closes, seen.close) == ([(fault.channel, fault.code)], None), f"seed {seed}"
        else:
            assert seen.close is not None, f"seed {seed}"
            assert (seen.close.reply_code, seen.closes) == (fault.code, []), f"seed {seed}: {seen.close}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_broken_dialogue_breaks_nothing_else(lab: Lab, block: int) -> None:
    fed, seed = 0, SEED + (block << 28)
    while fed < DIALOGUE_FRAMES:
        seed += 1
        fed += break_dialogue(lab, seed)


def break_dialogue(lab: Lab, seed: int) -> int:
    """Feed one broken dialogue; how many mutations it had."""
    rng = random.Random(seed)
    name = rng.choice(list(DIALOGUES))
    frames, count = mutate(rng, DIALOGUES[name])
    data = encode(name, frames)
    run(lab, seed, data, cuts_of(rng, len(data)))
    return count


def run(lab: Lab, seed: int, data: bytes, cuts: list[int], greeting: bytes = HANDSHAKE) -> Observer:
    try:
        return lab.run(data, cuts, greeting)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def test_broken_handshake_ends_in_time(lab: Lab) -> None:
    for seed in range(SEED, SEED + HANDSHAKES):
        rng = random.Random(seed)
        frames, _ = mutate(rng, handshake())
        data = PROTOCOL_HEADER + b"".join([frame.encode() for frame in frames])
        if rng.random() < 0.1:
            data = rng.randbytes(rng.randrange(20)) + data
        client = lab.client()
        try:
            client.feed_in_pieces(data, cuts_of(rng, len(data)))
            if client.connection.state != RUNNING:
                client.wait()
                assert client.now - 1_000_000 < 31_000
            lab.lose(client)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_broken_table_is_refused_or_means_something() -> None:
    for seed in range(SEED, SEED + TABLES):
        rng = random.Random(seed)
        fields = bytearray(random_table(rng)[4:] if rng.random() < 0.9 else nested(rng, rng.randrange(1, 60))[4:])
        for _ in range(rng.randrange(4)):
            if fields:
                fields[rng.randrange(len(fields))] = rng.choice((0, 1, 255, rng.randrange(256)))
        if rng.random() < 0.2:
            del fields[rng.randrange(len(fields) + 1) :]
        try:
            table = decode_table(bytes(fields), 0, len(fields))
        except SyntaxFault:
            continue
        again = encode_table(table)
        assert encode_table(decode_table(again, 4, len(again))) == again, f"seed {seed}"


def test_nothing_is_left_in_memory(lab: Lab) -> None:
    """The same rounds again must not take more memory than the first time."""

    def blocks_after_round() -> int:
        for seed in range(600):
            break_dialogue(lab, seed)
        for maker in MAKERS:
            for seed in range(10):
                lab.run(b"".join([frame.encode() for frame in maker(random.Random(seed)).frames]), [], OPENED)
        observer.decoded.cache_clear()
        gc.collect()
        return sys.getallocatedblocks()

    blocks_after_round()
    before = blocks_after_round()
    # About 900 connections: one object kept of each would show.
    assert blocks_after_round() - before < 300


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, list[tuple[Mutation, int, int]]]:
    """A dialogue, and what is done to which of its frames with which seed."""
    name = draw(st.sampled_from(sorted(DIALOGUES)))
    last = len(DIALOGUES[name]) - 1
    steps = st.tuples(st.sampled_from(MUTATIONS), st.integers(0, last), st.integers(0, 1 << 16))
    return name, draw(st.lists(steps, min_size=1, max_size=6))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(mutations(), st.lists(st.integers(0, 6000), max_size=3))
def test_any_mutations(broken: tuple[str, list[tuple[Mutation, int, int]]], cuts: list[int]) -> None:
    name, steps = broken
    frames: list[Frame] = list(DIALOGUES[name])
    for mutation, at, seed in steps:
        apply(mutation, random.Random(seed), frames, at % len(frames))
    Lab().run(encode(name, frames), cuts)


@pytest.mark.parametrize("greeting", [b"", PROTOCOL_HEADER, HANDSHAKE, OPENED], ids=["first", "header", "open", "channel"])
def test_any_bytes(greeting: bytes) -> None:
    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(st.lists(st.binary(min_size=1, max_size=60), max_size=3))
    def check(reads: list[bytes]) -> None:
        lab = Lab()
        client = lab.client()
        for read in [greeting, *reads]:
            client.feed(read)
        lab.lose(client)

    run_check: Callable[[], None] = check
    run_check()


def test_bad_protocol_header_is_answered_with_ours() -> None:
    for header in (b"HTTP/1.1", b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x01\x00\x00", b"\0" * 8):
        client = Client(default_broker())
        client.feed(header[:3])
        assert not client.connection.ended
        client.feed(header[3:])
        assert client.seen.header_refused
        assert client.connection.ended
