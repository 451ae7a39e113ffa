"""What nodes say of themselves, and whether their definitions are the same after the same command."""

import msgspec

# So many places in the log are remembered.
KEPT = 8


class Beat(msgspec.Struct):
    """How far a node is, and its last digest; said twice a second, and when something is applied."""

    applied: int
    digest_at: int = 0
    digest: str = ""


class Digests:
    """The digests of all nodes, by where in the log they were taken. `latest` is this node's last one."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._by_seq: dict[int, dict[str, str]] = {}
        self.latest = (0, "")

    def remember(self, seq: int, digest: str) -> None:
        """This node has that one."""
        self.latest = (seq, digest)
        self.hear(self._node, seq, digest)

    def hear(self, node: str, seq: int, digest: str) -> None:
        self._by_seq.setdefault(seq, {})[node] = digest
        for old in sorted(self._by_seq)[:-KEPT]:
            del self._by_seq[old]

    def forget(self) -> None:
        """They were of what is no more."""
        self._by_seq.clear()
        self.latest = (0, "")

    def who_is_right(self, seq: int, count: int) -> str | None:
        """A node of a majority of `count` which has another digest there than this one; None if there is none."""
        found = self._by_seq.get(seq, {})
        mine = found.get(self._node)
        if mine is None:
            return None
        for digest in set(found.values()) - {mine}:
            same = [node for node, other in found.items() if other == digest]
            if 2 * len(same) > count:
                return same[0]
        return None
