"""Which node a data folder is of: `cluster.json` beside the definitions, read at start and written again at each.

What it says of the others is where to find them; who is in the cluster, the definitions say.
"""

import os
import secrets
from pathlib import Path

import msgspec

from leveret.cluster.members import Member
from leveret.store.disk import make_folder, sync_folder
from leveret.store.modes import FOLDER_MODE, private

FILE_NAME = "cluster.json"


class OtherNode(Exception):
    """The data folder belongs to another node, or to none; the text is a line that says so."""


class Identity(msgspec.Struct):
    """A node. `incarnation` is how often it was started; `others` are those it has been told of."""

    cluster: str
    node: str
    id: str
    incarnation: int
    others: list[Member] = []


def take_identity(folder: Path, cluster: str, node: str) -> Identity:
    """Who this is from now on, one incarnation later; OtherNode if the folder is somebody else's."""
    file = folder / FILE_NAME
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Identity)
    except FileNotFoundError:
        found = Identity(cluster, node, secrets.token_hex(16), 0)
    except msgspec.DecodeError as error:
        raise OtherNode(f"{file} is damaged: {error}") from None
    if (found.cluster, found.node) != (cluster, node):
        raise OtherNode(f"{folder} is of node '{found.node}' of cluster '{found.cluster}', not '{node}' of '{cluster}'")
    found.incarnation += 1
    write_identity(folder, found)
    return found


def write_identity(folder: Path, identity: Identity) -> None:
    """Have it on disk."""
    make_folder(folder.absolute(), FOLDER_MODE)
    new = folder / f"{FILE_NAME}.new"
    with open(new, "wb", opener=private) as file:
        file.write(msgspec.json.encode(identity))
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE_NAME)
    sync_folder(folder)
