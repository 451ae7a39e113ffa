"""What a node has for its part in a cluster, and what it reads of its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leveret.server.cluster_settings import CannotJoin, ClusterSettings


class Pass(Protocol):
    """The end of the loop's turns, as far as a cluster needs it."""

    def do(self, function: Callable[[], None]) -> None: ...
    def on_progress(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node has for its cluster: what was kept for it and where it is kept, and whom it tells."""

    fact: str | None
    keep_fact: Callable[[str], None]
    outbox: Pass
    on_cut_off: Callable[[bool], None]
    on_failed: Callable[[Exception], None]


def secret_of(settings: ClusterSettings) -> bytes:
    """What the nodes of the cluster know; CannotJoin if there is none."""
    if not settings.secret_file:
        raise CannotJoin("a node of a cluster needs its secret: --secret-file FILE, or secret_file in [cluster]")
    try:
        secret = Path(settings.secret_file).read_bytes().strip()
    except OSError as error:
        raise CannotJoin(f"cannot read the cluster's secret: {settings.secret_file}: {error.strerror}") from None
    if not secret:
        raise CannotJoin(f"the cluster's secret is empty: {settings.secret_file}")
    return secret


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
