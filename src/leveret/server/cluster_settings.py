"""The settings of a node of a cluster, and the fault that it cannot be one. What runs a cluster is elsewhere."""

from typing import Annotated

import msgspec

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Address = Annotated[str, msgspec.Meta(pattern=r"^(\[[0-9a-fA-F:.]+\]|[^:\s]+):[0-9]{1,5}$")]


class ClusterSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What `[cluster]` may say. `host` is where others reach its two ports; `join` are the ports of others' links."""

    name: str
    node: str = ""
    join: list[Address] = []
    secret_file: str = ""
    host: str = "127.0.0.1"
    port: Port = 25672
    engine_port: Port = 25673
    engine_url: str = ""


class CannotJoin(Exception):
    """This node cannot be one of that cluster; the text is a line that says why."""
