"""The topic exchange: routing keys matched against patterns, word by word.

`*` stands for one word, `#` for any number of them. The patterns form a tree of words; a key is followed through it by
the set of all nodes it could have reached so far, each at most once a word. So the cost is bounded by nodes times words
whatever the patterns are, and by a few nodes a word in practice: nothing is tried twice and nothing backtracks.

  (1) Adjacent `#` mean the same as one and are stored as one.  RabbitMQ: an empty key, or pattern, has no word.
  (2) A node without destinations and children does not stay.
"""

from leveret.broker.binding import Binding
from leveret.broker.exchange import Destinations, Exchange
from leveret.wire.properties import Properties
from leveret.wire.values import Table


class Node:
    """A word in the tree of patterns."""

    __slots__ = ("children", "destinations", "hash", "is_hash", "reached_in", "star")

    def __init__(self, is_hash: bool = False) -> None:
        self.children: dict[str, Node] = {}
        self.star: Node | None = None
        self.hash: Node | None = None
        self.is_hash = is_hash
        self.destinations: Destinations | None = None
        self.reached_in = 0

    def child(self, word: str) -> "Node | None":
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.children.get(word)

    def grow(self, word: str) -> "Node":
        """The child for this word, made if need be."""
        found = self.child(word)
        if found is not None:
            return found
        node = Node(word == "#")
        if word == "*":
            self.star = node
        elif word == "#":
            self.hash = node
        else:
            self.children[word] = node
        return node

    def cut(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.children[word]

    @property
    def empty(self) -> bool:
        return not self.children and self.star is None and self.hash is None and self.destinations is None


class TopicExchange(Exchange):
    """To the destinations bound with a pattern that fits the routing key."""

    __slots__ = ("_root", "_stamp")

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self._root = Node()
        self._stamp = 0

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        return self._destinations(self._ends(routing_key))

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        # Each node once: many keys may end at one with many destinations.
        ends: dict[Node, None] = {}
        for routing_key in routing_keys:
            ends.update(dict.fromkeys(self._ends(routing_key)))
        return self._destinations(list(ends))

    def _ends(self, routing_key: str) -> list[Node]:
        """The nodes at which this key ends."""
        self._stamp += 1
        reached: list[Node] = []
        self._reach(self._root, reached)
        for word in routing_key.split(".") if routing_key else ():
            self._stamp += 1
            current = reached
            reached = []
            for node in current:
                if node.is_hash:
                    self._reach(node, reached)
                if node.star is not None:
                    self._reach(node.star, reached)
                child = node.children.get(word)
                if child is not None:
                    self._reach(child, reached)
            self.looks += 1 + len(reached)
            if not reached:
                break
        return reached

    def _destinations(self, ends: list[Node]) -> list[object]:
        found: list[object] = []
        for node in ends:
            if node.destinations is not None:
                found.extend(node.destinations.as_list())
        return found

    def _reach(self, node: Node, reached: list[Node]) -> None:
        # `#` stands for nothing too: its node is reached together with the one before it.
        while node.reached_in != self._stamp:
            node.reached_in = self._stamp
            reached.append(node)
            if node.hash is None:
                return
            node = node.hash

    def _add(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            node = node.grow(word)
        if node.destinations is None:
            node.destinations = Destinations()
        node.destinations.add(binding.destination)

    def _remove(self, binding: Binding) -> None:
        path = [self._root]
        words = words_of(binding.routing_key)
        for word in words:
            path.append(path[len(path) - 1].grow(word))
        node = path.pop()
        assert node.destinations is not None
        node.destinations.remove(binding.destination)
        if not node.destinations:
            node.destinations = None
        while path and node.empty:
            node = path.pop()
            node.cut(words.pop())


def words_of(pattern: str) -> list[str]:
    """The words of a binding's pattern, adjacent `#` as one."""
    words: list[str] = []
    last = ""
    for word in pattern.split(".") if pattern else ():
        if word != "#" or last != "#":
            words.append(word)
        last = word
    return words
