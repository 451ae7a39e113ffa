"""What a worker has done. Each has its own, which only it changes; sums are made when somebody asks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Messages: received, handled well, failed, refused, and left unacknowledged; receipts; connections that were lost."""

    received: int = 0
    handled: int = 0
    failed: int = 0
    refused: int = 0
    unacknowledged: int = 0
    receipts: int = 0
    disconnects: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def total(all_counters: Iterable[Counters]) -> Counters:
    found = Counters()
    for counters in all_counters:
        for name, value in counters.as_dict().items():
            setattr(found, name, getattr(found, name) + value)
    return found
