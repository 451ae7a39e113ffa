"""Counters with the rates at which they grow."""

from collections.abc import Mapping
from typing import Any


def with_rates(counts: Mapping[str, Any], subject: object = None) -> dict[str, Any]:
    """Counters of a queue, an exchange or another `subject`, each with its rate in `…_details`."""
    return {**counts, **{f"{name}_details": {"rate": 0.0} for name in counts}}
