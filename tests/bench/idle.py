"""Measure what an idle connection costs a broker: how much its resident memory grows for each one.

idle.py [--broker leveret|plain|rabbitmq] [--connections 5000]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import KINDS, BrokerFailed, raise_open_files, stop_on_sigterm
from tests.bench.client import Client, connect, connect_many

QUIET_SECONDS = 1.0
# Fewer than the 128 connections that a listening socket commonly holds until they are accepted.
AT_ONCE = 100
SPARE_FILES = 100


def idle_connection_bytes(pid: int, port: int, count: int) -> float:
    """Open `count` connections with a channel each and return the broker's growth in bytes for each of them."""
    allowed = raise_open_files()
    if allowed < count + SPARE_FILES:
        raise OSError(f"{count} connections need more than the {allowed} open files allowed here")
    # The first connection loads what all of them share; it is no part of the growth.
    connect(port).sock.close()
    time.sleep(QUIET_SECONDS)
    before = resident_bytes(pid)
    clients: list[Client] = []
    try:
        while len(clients) < count:
            clients += connect_many(port, min(AT_ONCE, count - len(clients)))
        time.sleep(QUIET_SECONDS)
        return (resident_bytes(pid) - before) / count
    finally:
        for client in clients:
            client.sock.close()


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the memory that an idle connection costs a broker.")
    parser.add_argument("--broker", choices=KINDS, default="leveret")
    parser.add_argument("--connections", type=int, default=5000)
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        with KINDS[options.broker]() as broker:
            started = time.perf_counter()
            each = idle_connection_bytes(broker.pid, broker.port, options.connections)
            seconds = time.perf_counter() - started
    except BrokerFailed as error:
        sys.exit(str(error))
    print(f"{options.broker}: {each / 1024:.1f} KiB a connection, {options.connections} connections, {seconds:.1f} s")


if __name__ == "__main__":
    main()
