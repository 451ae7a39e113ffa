"""Moments in time as RabbitMQ's API writes them."""

from datetime import UTC, datetime


def iso_time(at: int) -> str:
    """A time in ms as text, such as 2026-01-31T12:34:56.789+00:00."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
