"""The settings' defaults are RabbitMQ's."""

from leveret.broker.settings import Settings


def test_defaults() -> None:
    settings = Settings()
    assert (settings.channel_max, settings.frame_max, settings.heartbeat_s) == (2047, 131_072, 60)
    assert settings.max_message_size == 134_217_728
    assert not settings.refuse_prefetch_size
