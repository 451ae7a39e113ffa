"""Memory under pressure in a broker as operators start it."""

from pathlib import Path

import pytest
from tests.properties.dialogue import publish
from tests.server.support import Process

from leveret.wire import spec
from leveret.wire.properties import Properties

MB = 1_000_000


@pytest.mark.parametrize("persistent", [False, True])
def test_many_short_queues_stop_no_publisher(tmp_path: Path, persistent: bool) -> None:
    """SPEC §8.5: all of them have twice the memory that may be used, and none is beyond its own window."""
    body = bytes(10_000)
    properties = Properties(delivery_mode=2 if persistent else 1)
    sent = confirmed = 0
    environment = {"LEVERET_MEMORY_WATERMARK": str(160 * MB)}
    with Process(tmp_path, environment=environment) as broker, broker.login() as client:
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        for number in range(40):
            client.declare(f"q{number}", durable=True)
        for _ in range(8):
            for number in range(40):
                client.send(*(frame for _ in range(100) for frame in publish(1, f"q{number}", body, properties)))
                sent += 100
                while confirmed < sent:
                    confirmed = client.expect(spec.BasicAck).delivery_tag
        for number in range(40):
            assert client.declare(f"q{number}", passive=True) == 800
