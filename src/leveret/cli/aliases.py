"""RabbitMQ's names for leveretctl, where somebody wants them: `leveretctl install-aliases DIR`.

The same commands work under every name; only what they call themselves differs.
"""

import os
import shutil
import sys
from pathlib import Path

from leveret.cli.command import DATA, Bad

OWN_NAME = "leveretctl"
ALIASES = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues")


def tool_name() -> str:
    """The name under which this runs."""
    name = Path(sys.argv[0]).name
    return name if name in ALIASES else OWN_NAME


def install_aliases(folder: str) -> str:
    """Make links in a folder; a link is made anew, but nothing else is overwritten."""
    target = own_path()
    made = []
    for name in ALIASES:
        link = Path(folder) / name
        if link.exists() and not link.is_symlink():
            raise Bad(f"{link} is there already, and no link", DATA)
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        except OSError as error:
            raise Bad(f"cannot make {link}: {error.strerror}", DATA) from None
        made.append(str(link))
    return "\n".join(made)


def own_path() -> Path:
    """Where leveretctl is: beside this Python, or else where a shell finds it."""
    beside = Path(sys.executable).with_name(OWN_NAME)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(OWN_NAME)
    if found is None:
        raise Bad(f"{OWN_NAME} is not installed here", DATA)
    return Path(found)
