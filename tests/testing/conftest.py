"""Nothing of a broker may be left when it has stopped: no thread, no file, no warning."""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from leveret.testing import Broker

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """What a process does once: imports; and libuv's pipe for signals, which the tests that use uvloop bring."""
    uvloop.run(asyncio.sleep(0))
    with Broker(management=True):
        pass


@pytest.fixture(autouse=True)
def _nothing_left(_warm: None) -> Iterator[None]:
    gc.collect()
    before = threading.enumerate(), open_files()
    yield
    gc.collect()
    assert (threading.enumerate(), open_files()) == before


def open_files() -> list[str]:
    """What is open, without the descriptor that lists it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:
            continue
    return sorted(found)
