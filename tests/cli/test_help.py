"""`leveret --help`: quick, and without what only a running broker needs."""

import resource
import statistics
import subprocess
import sys
from pathlib import Path

HEAVY = ("aiohttp", "rich", "sqlite3", "asyncio")


COMMAND = Path(sys.executable).with_name("leveret")


def seconds(*command: str | Path) -> float:
    """Processor time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_imports_nothing_heavy() -> None:
    """SPEC §9.5: --help imports no aiohttp, rich or sqlite."""
    code = "import sys; from leveret.cli.main import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & set(HEAVY)


def test_help_takes_at_most_five_times_as_long_as_nothing() -> None:
    """SPEC §9.5: people ask for it often. The two take turns, so that a busy machine hits both."""
    pairs = [(seconds(sys.executable, "-c", "pass"), seconds(COMMAND, "--help")) for _ in range(15)]
    nothing, helping = (statistics.median(one) for one in zip(*pairs, strict=True))
    assert helping <= 5 * nothing, (helping, nothing)
