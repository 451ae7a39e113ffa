"""Running the broker, as far as it can be seen without a process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from leveret.cli import serve
from leveret.server.config import Config
from leveret.server.endpoint import Endpoint
from leveret.server.node import Node

if TYPE_CHECKING:
    from pathlib import Path


def test_setting_among_the_reloaded_ones_is_set(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §9.6: what is said to be changed is."""
    seen = []
    monkeypatch.setitem(serve.RELOADED, "heartbeat", lambda node, config: seen.append((node, config.heartbeat)))
    node = Node(Config(port=0, storage="memory"))
    caplog.set_level(logging.INFO)
    serve.Reloading(node, Config(heartbeat=60), lambda: Config(heartbeat=7)).reload()
    assert seen == [(node, 7)]
    assert caplog.messages == ["SIGHUP: heartbeat is changed"]


def test_every_reloaded_setting_is_one() -> None:
    assert set(serve.RELOADED) <= set(Config.__struct_fields__)


def test_endpoint_of_an_unknown_protocol_is_not_served_as_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(serve, "management_endpoints", lambda config: [Endpoint("mqtt", "127.0.0.1", 0)])

    async def manage() -> None:
        config = Config(port=0, storage="memory", data_dir=str(tmp_path))
        with pytest.raises(KeyError, match="mqtt"):
            await serve.manage(Node(config), config)

    asyncio.run(manage())
