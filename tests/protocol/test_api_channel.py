"""What is published through the API reaches clients as it would from one of them."""

import pytest
from tests.protocol.conftest import Client

from leveret.management.api_channel import ApiChannel
from leveret.wire.properties import Properties
from leveret.wire.spec import BasicGet, QueueDeclare


@pytest.mark.parametrize("size", [0, 100, 16_383, 16_384, 131_064, 300_000])
@pytest.mark.parametrize("channel", [1, 2])
def test_message_of_the_api_reaches_every_channel(client: Client, size: int, channel: int) -> None:
    """All frames of a delivery are the channel's, of large bodies too."""
    if channel != 1:
        client.open(channel)
    client.say(QueueDeclare("q"))
    api = ApiChannel(client.broker, client.connection.session.user, client.connection.session.vhost)
    api.publish("", "q", Properties(), bytes(size))
    heard = client.say(BasicGet("q", no_ack=True), channel=channel)
    assert heard[1] == bytes(size)
