"""Paging beside a model: what is delivered is what was published, wherever it was meanwhile, and whatever came between."""

import os
import random
from itertools import count

import pytest
from tests.store.paging_model import QUEUES, Life, declare
from tests.store.support import Rig, body, letter

from leveret.broker import relief
from leveret.broker.message import Message
from leveret.broker.pages import Sizes
from leveret.store import store as store_module
from leveret.wire.content import PERSISTENT

SEEDS = int(os.environ.get("SOAK_SEEDS", "6"))
ROUNDS = 4
OPERATIONS = 250


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_paged_out_comes_back_as_it_was(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.5, §8.4 and §8.1: memory is bounded, space comes back, and nobody notices, nor after a crash."""
    monkeypatch.setattr(store_module, "SPILL_PIECE", 600)
    monkeypatch.setattr(relief, "WORTHWHILE_BYTES", 1)
    choice = random.Random(seed)
    numbers = count()
    sizes = Sizes(choice.choice([4, 8, 12]), 1 << 16, choice.choice([2, 4]), 2048, choice.choice([0, 5000, 20_000]))
    options = {"segment_size": 1 << 12, "sizes": sizes, "apart": True}
    rig = Rig(**options)  # type: ignore[arg-type]
    rig.vhost.declare_exchange("fan", "fanout", durable=True)
    for _ in range(ROUNDS):
        for name in QUEUES:
            declare(rig, name)
        rig.settle_down()
        life = Life(rig, choice, numbers)
        rig.disk.steps_left = choice.randrange(20, 200)
        life.live(OPERATIONS)
        if rig.store.failed is not None and not rig.disk.cut:
            raise rig.store.failed
        history = rig.definitions.history
        for disk in (rig.disk.worst(), rig.disk.best(), rig.disk.after(choice)):
            life.check(Rig(disk, history, **options))  # type: ignore[arg-type]
        rig = Rig(rig.disk.after(choice), history, **options)  # type: ignore[arg-type]
        rig.settle_down()
        if choice.random() < 0.3:
            rig = rig.restarted(**options)
    assert all(entry.message.flags & PERSISTENT for queue in rig.queues() for entry in rig.ready(queue))


def sized(size: int, number: int, persistent: bool = True) -> Message:
    return letter(number.to_bytes(4, "big") + bytes(size - 4), delivery_mode=2 if persistent else 1)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("what", ["count", "bytes"])
def test_window_is_full_at_its_size_and_over_with_one_more(what: str, persistent: bool) -> None:
    """SPEC §8.5: what fits is in memory; what comes behind is paged out once it makes two pages, one at a time."""
    sizes = Sizes(8, 1 << 20, 4, 1 << 20) if what == "count" else Sizes(1 << 20, 8 * 1000, 1 << 20, 4 * 1000)
    rig = Rig(sizes=sizes)
    queue = rig.queue("q")
    seen = []
    for number in range(30):
        rig.publish(sized(1000, number, persistent))
        seen.append((queue.backlog.paged, queue.backlog.back_count, queue.backlog.pages.count))
    assert seen[:8] == [(False, 0, 0)] * 8
    # The one that is over the window is the last in front.
    assert seen[8:18] == [(True, 0, 0), *((True, back, 0) for back in range(1, 8)), (True, 4, 4), (True, 5, 4)]
    rig.settle_down()
    for number in range(30):
        entry = rig.take("q")
        assert body(entry.message)[:4] == number.to_bytes(4, "big")
        entry.queue.settle(entry)
        rig.settle_down()
    assert (queue.ready_count, queue.ready_bytes, queue.backlog.pages.count, queue.backlog.back_count) == (0, 0, 0, 0)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_one_message_at_the_size_of_everything(over: int) -> None:
    """SPEC §8.5: a body as large as the window, a page or two, give or take an octet, goes out and comes back whole."""
    for size in (2048 + over, 4096 + over, 8192 + over):
        rig = Rig(sizes=Sizes(4, 8192, 2, 2048), segment_size=1 << 16)
        queue = rig.queue("q")
        for number in range(12):
            rig.publish(sized(size, number, number % 2 == 0))
        rig.settle_down()
        assert queue.backlog.pages.count > 0
        for number in range(12):
            entry = rig.take("q")
            assert body(entry.message) == number.to_bytes(4, "big") + bytes(size - 4)
            entry.queue.settle(entry)
            rig.settle_down()
        rig.check([])
