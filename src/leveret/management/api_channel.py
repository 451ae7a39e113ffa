"""The channel of one request: what the API publishes and gets for its user goes through one, as any client's does.

So rights, properties, limits, tracing and counts are in one place. Nobody reads what the channel answers. It lives for one
request, and is on none of its vhost's connections.
"""

from typing import TYPE_CHECKING

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.vhost import VirtualHost
from leveret.protocol.channel import Channel
from leveret.protocol.confirms import Confirms
from leveret.protocol.session import Session
from leveret.protocol.states import CHANNEL_OPEN
from leveret.wire.content import END, frame_content, frame_head
from leveret.wire.frames import FrameReader
from leveret.wire.output import Output
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import BASIC_PUBLISH, FRAME_METHOD
from leveret.wire.values import encode_short_string

if TYPE_CHECKING:
    from leveret.management.http.request import Request

NUMBER = 1
FRAME_MAX = 131_072
BASIC_CLASS = 60
MANDATORY = b"\x01"
NAME = "HTTP API"


class ApiChannel:
    """One user in one vhost. All of it is to be called within a change of the model (`Request.change`)."""

    def __init__(self, broker: Broker, user: User, vhost: VirtualHost) -> None:
        session = Session(broker, Output(nothing))
        session.output.frame_max = FRAME_MAX
        session.user = user
        session.vhost = vhost
        session.rights = user.rights_in(vhost.name)
        session.connection_name = NAME
        self.session = session
        self.channel = Channel(NUMBER, session)
        self.channel.state = CHANNEL_OPEN

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> None:
        """Publish; `session.pending` is left if that takes long."""
        self.session.now = self.session.broker.now
        self.channel.confirms = Confirms(NUMBER, self.channel.counters)
        fields = encode_short_string(exchange) + encode_short_string(routing_key) + MANDATORY
        method = BASIC_PUBLISH.to_bytes(4, "big") + bytes(2) + fields
        header = BASIC_CLASS.to_bytes(2, "big") + bytes(2) + len(body).to_bytes(8, "big") + encode_properties(properties)
        reader = FrameReader(max(FRAME_MAX, len(header)))
        reader.feed(frame_head(FRAME_METHOD, NUMBER, len(method)) + method + END + self._content(header, body))
        while reader.next():
            self.channel.on_frame(reader)

    def _content(self, header: bytes, body: bytes) -> bytes:
        return frame_content(header, body, FRAME_MAX - len(END) - 7, NUMBER)

    @property
    def routed(self) -> bool:
        """Whether what was published reached a queue."""
        return self.channel.counters.return_unroutable == 0

    @property
    def refused(self) -> bool:
        """Whether a queue did not take it."""
        return self.channel.confirms is not None and bool(self.channel.confirms.refused)

    def close(self) -> None:
        """Count what it did with its vhost's."""
        self.channel.routes.flush_counts()
        self.session.vhost.counters.add(self.channel.counters)


def client_of(request: "Request") -> ApiChannel:
    """The user who asks as a client in the path's vhost."""
    return ApiChannel(request.broker, request.user, request.vhost)


def nothing() -> None:
    """Nobody reads what is written."""
