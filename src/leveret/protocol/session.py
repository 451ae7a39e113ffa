"""What the channels of one connection share: broker, vhost, user, output, and what holds the connection's frames.

Knows nothing of frames or channels; `Connection` makes it, `Channel` uses it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.queue import Queue
from leveret.broker.rights import Rights
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Task
from leveret.errors import ResourceError
from leveret.wire.output import Output
from leveret.wire.spec import ConnectionBlocked, ConnectionUnblocked, Method

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel
    from leveret.protocol.incoming import Incoming

INCOMPLETE_SIZE_MAX = 256 << 20
# For bodies that are still to come: as much as may come.
RESERVED_SIZE_MAX = INCOMPLETE_SIZE_MAX


class Session:
    """The shared state.

    `now` is the time of the current pass (ms); `reads` how often something was read from the client; `method_index` the
    method in hand, for error replies, 0 if none; `pending` a task that must end before the next frame is looked at;
    `answers` what waits for storage, in order: the position it must have synced, a channel's number and a method;
    `confirming` the channels with confirms to tell. `blocked` is set while no frame is looked at because the client has
    published and publishers are stopped; `filling` the message whose body is read straight to where it stays. To the model
    it is a `ConnectedClient`.
    """

    __slots__ = (
        "_prune_at",
        "_told",
        "address",
        "answers",
        "blocked",
        "broker",
        "capabilities",
        "channels",
        "confirming",
        "connection_name",
        "exclusive_queues",
        "filling",
        "incomplete_size",
        "method_index",
        "now",
        "on_shut",
        "output",
        "pending",
        "reads",
        "reserved_size",
        "rights",
        "user",
        "vhost",
    )

    vhost: VirtualHost
    user: User
    rights: Rights

    def __init__(self, broker: Broker, output: Output) -> None:
        self.broker = broker
        self.output = output
        self.connection_name = ""
        self.address = ""
        self.on_shut: Callable[[str], None] | None = None
        self.now = 0
        self.method_index = 0
        self.reads = 0
        self.pending: Task | None = None
        self.answers: list[tuple[int, int, Method]] = []
        self.confirming: list[Channel] = []
        self.channels: dict[int, Channel] = {}
        self.exclusive_queues: list[Queue] = []
        self.capabilities: dict[str, Any] = {}
        self.incomplete_size = 0
        self.reserved_size = 0
        self.filling: Incoming | None = None
        self.blocked = False
        self._told = False
        self._prune_at = 64

    def enter(self, user: User, vhost: VirtualHost, on_shut: Callable[[str], None]) -> None:
        """The client is logged in; `on_shut` is called if the model wants it gone."""
        self.user = user
        self.vhost = vhost
        self.rights = user.rights_in(vhost.name)
        self.on_shut = on_shut
        self.broker.churn.connections_opened += 1
        self.broker.connections.add(self.address)
        user.clients[self] = None
        vhost.clients[self] = None
        self.broker.events.add("connection.created", vhost.name, self.connection_name)

    def leave(self) -> None:
        """The client is gone, or as good as gone."""
        if self.on_shut is not None:
            self.on_shut = None
            self.user.clients.pop(self, None)
            self.vhost.clients.pop(self, None)
            self.broker.connections.remove(self.address)
            self.broker.events.add("connection.closed", self.vhost.name, self.connection_name)

    def shut(self, reason: str) -> None:
        """End the connection with 320 and this reason."""
        if self.on_shut is not None:
            self.on_shut(reason)

    def recheck(self) -> None:
        """Rights have changed: end what is no longer allowed."""
        for channel in list(self.channels.values()):
            channel.consumers.recheck(channel)

    def check_throttle(self) -> None:
        """The client publishes: if publishers are stopped, this frame is its last until they are not."""
        if self.broker.throttled:
            self.blocked = True
            self.tell_alarm()
            # The pass ends as if its budget were spent, so that nothing has to be looked at for each frame.
            self.broker.work.budget.left = 0

    def tell_alarm(self) -> None:
        """Tell a client that is stopped, if it listens for that, that something runs low or no longer does; each once."""
        alarm = self.broker.alarm
        low = alarm != ""
        if low != self._told and self.capable("connection.blocked"):
            self._told = low
            self.output.write_method(0, ConnectionBlocked(alarm) if low else ConnectionUnblocked())

    def do(self, task: Task) -> None:
        """Do a task now, or as much of it as the budget allows and the rest before the next frame."""
        if not task.run(self.broker.work.budget):
            self.pending = task

    def go_on(self) -> bool:
        """Go on with the task in hand; True if none is left."""
        if self.answers:
            self._give_answers()
        task, self.pending = self.pending, None
        # One that fails is done with; what its failure begins may be pending then.
        if task is not None:
            self.do(task)
        return self.pending is None

    def tell_confirms(self) -> None:
        """Confirm what may be confirmed now; the channels that have more to tell later stay."""
        confirming, self.confirming = self.confirming, []
        for channel in confirming:
            confirms = channel.confirms
            if confirms is not None:
                confirms.tell(self.output)
                if confirms.told != confirms.published:
                    self.confirming.append(channel)

    def lose_confirms(self) -> None:
        """Storage has failed: refuse what waits for it."""
        for channel in self.confirming:
            if channel.confirms is not None:
                channel.confirms.lose(self.output)
        self.confirming = []
        self.output.wake()

    def is_waiting(self) -> bool:
        """Whether something is in hand: frames that are there are not all looked at."""
        return self.pending is not None or len(self.answers) > 0

    def answer(self, channel: int, method: Method, stored: bool) -> None:
        """Answer after all that waits; if it is to be `stored`, when what was said up to now is on disk."""
        storage = self.broker.storage
        position = storage.position() if stored else 0
        if not self.answers and position <= storage.synced:
            self.output.write_method(channel, method)
        else:
            self.answers.append((position, channel, method))

    def _give_answers(self) -> None:
        """Give those that need not wait any more."""
        synced = self.broker.storage.synced
        count = 0
        for position, channel, method in self.answers:
            if position > synced:
                break
            self.output.write_method(channel, method)
            count += 1
        del self.answers[:count]

    def own(self, queue: Queue) -> None:
        """Remember an exclusive queue, to delete it with the connection."""
        queues = self.exclusive_queues
        if len(queues) >= self._prune_at:
            queues[:] = [known for known in queues if not known.deleted]
            self._prune_at = 64 + 2 * len(queues)
        queues.append(queue)

    def capable(self, capability: str) -> bool:
        """Whether the client has said that it can do this."""
        return self.capabilities.get(capability) is True

    def count_incomplete(self, size: int) -> None:
        """Count body bytes of messages that are not whole yet."""
        self.incomplete_size += size
        if size > 0 and self.incomplete_size > INCOMPLETE_SIZE_MAX:
            raise ResourceError(f"more than {INCOMPLETE_SIZE_MAX} bytes of incomplete messages")

    def reserve(self, size: int) -> bool:
        """Whether there may be room for so much that is still to come; then it counts."""
        broker = self.broker
        if self.reserved_size + size > RESERVED_SIZE_MAX or broker.reserved_size + size > broker.settings.reserved_size_max:
            return False
        self.reserved_size += size
        broker.reserved_size += size
        return True

    def unreserve(self, size: int) -> None:
        """It has come, or never will."""
        self.reserved_size -= size
        self.broker.reserved_size -= size
