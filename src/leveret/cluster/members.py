"""The nodes of a cluster: which there are, as the log of definitions says, and who of them is heard from.

A majority is more than half of all that have come in and were not forgotten, whether they are up or not. Time is an argument
(seconds, of a clock that only goes forward).
"""

import msgspec

# Who was heard from lately enough to be waited for; and how long without a majority a node is cut off.
HEARD_S = 3.0
CUT_OFF_S = 2.5


class Member(msgspec.Struct, frozen=True):
    """A node: its data folder's id, and where its links and its engine's routes come in."""

    node: str
    id: str
    host: str
    port: int
    engine_port: int


class Members:
    """All nodes by name, the one that this is among them; how far each of the others was when it was last heard from."""

    def __init__(self, me: Member, known: dict[str, Member] | None = None) -> None:
        self.me = me
        # Those that the log has; empty until the first one is read.
        self.known = dict(known or {})
        self.applied: dict[str, int] = {}
        self._heard_at: dict[str, float] = {}

    def heard(self, node: str, now: float) -> None:
        self._heard_at[node] = now

    def silent(self, node: str) -> None:
        """Its link is closed: it need not be waited for any more."""
        self._heard_at.pop(node, None)

    def is_heard(self, node: str, now: float, within_s: float = HEARD_S) -> bool:
        return node == self.me.node or now - self._heard_at.get(node, -within_s - 1) <= within_s

    def heard_others(self, now: float) -> list[str]:
        """The others that are heard from."""
        return [node for node in self.known if node != self.me.node and self.is_heard(node, now)]

    def missing(self, now: float, within_s: float = HEARD_S) -> list[str]:
        """Who is not heard from, by name."""
        return sorted(node for node in self.known if not self.is_heard(node, now, within_s))

    def has_majority(self, now: float, within_s: float = CUT_OFF_S) -> bool:
        """Whether more than half of all nodes are heard from, this one among them."""
        return 2 * len(self.missing(now, within_s)) < len(self.known) or not self.known


def replicas_for(count: int) -> int:
    """On how many of so many nodes the log of definitions is."""
    return 5 if count >= 5 else 3 if count >= 3 else 1
