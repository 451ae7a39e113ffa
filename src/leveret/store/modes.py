"""Who may read what is kept: nobody but its owner. Messages are in the files, and users' password hashes."""

import logging
import os
import stat
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
OTHERS = 0o077
# How the names of our files begin. SQLite gives its other files the mode of the main one.
OURS = ("journal-", "spill-", "definitions.sqlite", "damaged-", "lock", "control.sock", "cluster", "sessions")
# What a file system has of its own in its topmost folder.
OF_FILE_SYSTEM = ("lost+found",)

log = logging.getLogger("leveret.store")


def private(path: str | os.PathLike[str], flags: int) -> int:
    """An opener for `open`: a file that is made is its owner's."""
    return os.open(path, flags, FILE_MODE)


def make_private(file: Path) -> None:
    """Make an empty file for its owner, for a program that would make one for all; one that is there stays."""
    os.close(os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, FILE_MODE))


def write_private(file: str, text: str) -> None:
    """Write a line or more; a file that is made for it is its owner's."""
    with open(file, "w", encoding="utf-8", opener=private) as opened:
        opened.write(text + "\n")


def keep_from_others(folder: Path) -> None:
    """Take the rights of others to a data folder and its files away, and say so; or say why that cannot be."""
    names = os.listdir(folder)
    for name in names:
        if name.startswith(OURS):
            _tighten(folder / name)
    strange = [name for name in names if not name.startswith(OURS) and name not in OF_FILE_SYSTEM]
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & OTHERS and strange:
        # It may be anything, such as /tmp: to close it could stop others.
        log.warning(
            "others may read the data folder %s (mode %04o); it is left so, as it has more in it than ours, such as %s",
            folder,
            mode,
            strange[0],
        )
    elif _tighten(folder.resolve()):
        log.warning("others could read the data folder %s (mode %04o); now only its owner may", folder, mode)


def _tighten(path: Path) -> bool:
    """Whether others had rights to it, which they no longer have."""
    found = path.lstat().st_mode
    if not found & OTHERS or not (stat.S_ISREG(found) or stat.S_ISDIR(found)):
        return False
    try:
        path.chmod(stat.S_IMODE(found) & ~OTHERS)
    except OSError as error:
        log.warning(
            "others may read %s (mode %04o), and that cannot be changed: %s", path, stat.S_IMODE(found), error.strerror
        )
        return False
    return True
