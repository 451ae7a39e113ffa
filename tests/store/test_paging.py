"""Paging beside a model: what is delivered is what was published, wherever it was meanwhile, and whatever came between."""

import os
import random
from itertools import count

import pytest
from tests.store.paging_model import QUEUES, Life, declare
from tests.store.support import Rig

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
    choice = random.Random(seed)
    numbers = count()
    sizes = Sizes(choice.choice([4, 8, 12]), 1 << 16, choice.choice([2, 4]), 2048)
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
