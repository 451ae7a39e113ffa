"""Debian's packages that some tests need: RabbitMQ, to compare with, FUSE, to cut the power, and a browser for the page.

debian.py     installs those that are missing, and says so; `make test` and `make bench` run it first

No test installs anything: one that misses a package fails, and says which and how to install it. Where this is not root, or
not Debian, nothing is installed and the other tests run.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
FUSERMOUNT = Path("/usr/bin/fusermount3")
CHROMIUM = Path("/usr/bin/chromium")
# Which file shows that packages are installed.
PACKAGES = {RABBITMQ_SERVER: ["rabbitmq-server"], FUSERMOUNT: ["libfuse3-3", "fuse3"], CHROMIUM: ["chromium"]}
POLICY = Path("/usr/sbin/policy-rc.d")


class PackageMissing(Exception):
    """A test cannot run on this machine; the text says what it lacks, and how to install it."""


def need(shown_by: Path) -> None:
    """PackageMissing unless what has this file is installed."""
    if not shown_by.exists():
        raise PackageMissing(f"{shown_by} is missing; on Debian, as root: {command(PACKAGES[shown_by])}")


def missing() -> list[str]:
    return [name for shown_by, names in PACKAGES.items() if not shown_by.exists() for name in names]


def command(names: list[str]) -> str:
    return " ".join(["apt-get", "install", "-y", "--no-install-recommends", *names])


def install(names: list[str]) -> None:
    with services_kept_from_starting():
        subprocess.run(command(names).split(), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@contextmanager
def services_kept_from_starting() -> Iterator[None]:
    """Answer 101 ("not allowed") to Debian's packages that want to start their service."""
    kept = POLICY.with_name(POLICY.name + ".leveret-tests")
    existed = POLICY.exists()
    if existed:
        POLICY.rename(kept)
    try:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
        yield
    finally:
        if existed:
            kept.rename(POLICY)
        else:
            POLICY.unlink(missing_ok=True)


def main() -> None:
    names = missing()
    if not names:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.stderr.write(f"Some tests will fail without {', '.join(names)}. On Debian, as root: {command(names)}\n")
        return
    sys.stderr.write(f"Installing what some tests need, as root: {command(names)}\n")
    install(names)


if __name__ == "__main__":
    main()
