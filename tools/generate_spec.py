"""Write `src/leveret/wire/spec.py`: the frame constants and one dataclass for each AMQP 0-9-1 method.

The table below is the protocol: classes, methods and fields in wire order, with RabbitMQ's extensions. A field is
`name:kind`; a reserved one, on the wire but nowhere else, is `-:kind`; a `*` after a method's name says that content
follows it.

    python tools/generate_spec.py           writes the file
    python tools/generate_spec.py --check   exits 1 when the file is not what would be written
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src" / "leveret" / "wire" / "spec.py"
LINE_LENGTH = 120

PROTOCOL = """
10 connection
    10 start             version-major:octet version-minor:octet server-properties:table mechanisms:longstr
                         locales:longstr
    11 start-ok          client-properties:table mechanism:shortstr response:longstr locale:shortstr
    20 secure            challenge:longstr
    21 secure-ok         response:longstr
    30 tune              channel-max:short frame-max:long heartbeat:short
    31 tune-ok           channel-max:short frame-max:long heartbeat:short
    40 open              virtual-host:shortstr -:shortstr -:bit
    41 open-ok           -:shortstr
    50 close             reply-code:short reply-text:shortstr class-id:short method-id:short
    51 close-ok
    60 blocked           reason:shortstr
    61 unblocked
    70 update-secret     new-secret:longstr reason:shortstr
    71 update-secret-ok
20 channel
    10 open              -:shortstr
    11 open-ok           -:longstr
    20 flow              active:bit
    21 flow-ok           active:bit
    40 close             reply-code:short reply-text:shortstr class-id:short method-id:short
    41 close-ok
30 access
    10 request           realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
    11 request-ok        ticket:short
40 exchange
    10 declare           -:short exchange:shortstr type:shortstr passive:bit durable:bit auto-delete:bit internal:bit
                         no-wait:bit arguments:table
    11 declare-ok
    20 delete            -:short exchange:shortstr if-unused:bit no-wait:bit
    21 delete-ok
    30 bind              -:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table
    31 bind-ok
    40 unbind            -:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table
    51 unbind-ok
50 queue
    10 declare           -:short queue:shortstr passive:bit durable:bit exclusive:bit auto-delete:bit no-wait:bit
                         arguments:table
    11 declare-ok        queue:shortstr message-count:long consumer-count:long
    20 bind              -:short queue:shortstr exchange:shortstr routing-key:shortstr no-wait:bit arguments:table
    21 bind-ok
    30 purge             -:short queue:shortstr no-wait:bit
    31 purge-ok          message-count:long
    40 delete            -:short queue:shortstr if-unused:bit if-empty:bit no-wait:bit
    41 delete-ok         message-count:long
    50 unbind            -:short queue:shortstr exchange:shortstr routing-key:shortstr arguments:table
    51 unbind-ok
60 basic
    10 qos               prefetch-size:long prefetch-count:short global:bit
    11 qos-ok
    20 consume           -:short queue:shortstr consumer-tag:shortstr no-local:bit no-ack:bit exclusive:bit no-wait:bit
                         arguments:table
    21 consume-ok        consumer-tag:shortstr
    30 cancel            consumer-tag:shortstr no-wait:bit
    31 cancel-ok         consumer-tag:shortstr
    40 publish*          -:short exchange:shortstr routing-key:shortstr mandatory:bit immediate:bit
    50 return*           reply-code:short reply-text:shortstr exchange:shortstr routing-key:shortstr
    60 deliver*          consumer-tag:shortstr delivery-tag:longlong redelivered:bit exchange:shortstr
                         routing-key:shortstr
    70 get               -:short queue:shortstr no-ack:bit
    71 get-ok*           delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr message-count:long
    72 get-empty         -:shortstr
    80 ack               delivery-tag:longlong multiple:bit
    90 reject            delivery-tag:longlong requeue:bit
    100 recover-async    requeue:bit
    110 recover          requeue:bit
    111 recover-ok
    120 nack             delivery-tag:longlong multiple:bit requeue:bit
85 confirm
    10 select            no-wait:bit
    11 select-ok
90 tx
    10 select
    11 select-ok
    20 commit
    21 commit-ok
    30 rollback
    31 rollback-ok
"""

DECLARATIONS = {  # kind -> the annotation and default of such a field
    "bit": "bool = False",
    "octet": "int = 0",
    "short": "int = 0",
    "long": "int = 0",
    "longlong": "int = 0",
    "timestamp": "int = 0",
    "shortstr": 'str = ""',
    "longstr": 'bytes = b""',
    "table": "Table = field(default_factory=dict)",
}
KEYWORDS = {"global": "global_"}  # the one word of the protocol that Python keeps for itself
HOT = ("basic.publish", "basic.ack", "basic.nack", "basic.reject", "basic.deliver", "basic.get-ok", "basic.return")

HEAD = '''\
# Generated by tools/generate_spec.py; change the table there and run it again.
"""The frames and methods of AMQP 0-9-1 with RabbitMQ's extensions, as constants and dataclasses.

A method knows its index, its name and its fields in wire order; putting it into bytes is the work of `methods`.

(1) `INDEX` is the class id << 16 | the method id: the first four octets of a method frame's payload.
(2) `FIELDS` names every field with its wire kind; a reserved one has the name "" and no attribute, and is sent as zero.
(3) Every attribute defaults to zero, false or empty, whatever the protocol's documents suggest.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from leveret.wire.values import Table

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE
FRAME_MIN_SIZE = 4096

Fields = tuple[tuple[str, str], ...]


class Method:
    """One protocol method; each subclass holds its fields."""

    __slots__ = ()

    INDEX: ClassVar[int]
    NAME: ClassVar[str]
    FIELDS: ClassVar[Fields]
    CONTENT: ClassVar[bool] = False
'''


@dataclass(frozen=True)
class Row:
    """A method as the table tells it."""

    class_id: int
    method_id: int
    name: str
    content: bool
    fields: tuple[tuple[str, str], ...]

    @property
    def index(self) -> int:
        return self.class_id << 16 | self.method_id

    @property
    def type_name(self) -> str:
        return self.name.title().replace(".", "").replace("-", "")


def read_protocol(text: str) -> Iterator[Row]:
    """Yield the methods of the table in its order."""
    class_id, class_name = 0, ""
    for line in joined_lines(text):
        number, name, *fields = line.split()
        if not line.startswith(" "):
            class_id, class_name = int(number), name
            continue
        content = name.endswith("*")
        yield Row(class_id, int(number), f"{class_name}.{name.rstrip('*')}", content, tuple(map(read_field, fields)))


def joined_lines(text: str) -> list[str]:
    """Return the table's lines, each continuation put back on the line that it continues."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.lstrip()[0].isdigit():
            lines.append(line)
        else:
            lines[-1] += " " + line.strip()
    return lines


def read_field(text: str) -> tuple[str, str]:
    name, kind = text.split(":")
    if kind not in DECLARATIONS:
        raise ValueError(f"unknown kind in {text!r}")
    name = name.replace("-", "_").strip("_")
    return KEYWORDS.get(name, name), kind


def method_source(row: Row) -> str:
    lines = [
        "@dataclass(slots=True)",
        f"class {row.type_name}(Method):",
        f"    INDEX: ClassVar[int] = 0x{row.index:08X}",
        f'    NAME: ClassVar[str] = "{row.name}"',
        *fields_source(row.fields),
    ]
    if row.content:
        lines.append("    CONTENT: ClassVar[bool] = True")
    attributes = [f"    {name}: {DECLARATIONS[kind]}" for name, kind in row.fields if name]
    if attributes:
        lines += ["", *attributes]
    return "\n".join(lines) + "\n"


def fields_source(fields: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the FIELDS lines: one where it fits, else one for each field, as `ruff format` has it."""
    pairs = [f'("{name}", "{kind}")' for name, kind in fields]
    comma = "," if len(pairs) == 1 else ""
    line = f"    FIELDS: ClassVar[Fields] = ({', '.join(pairs)}{comma})"
    if len(line) <= LINE_LENGTH:
        return [line]
    return ["    FIELDS: ClassVar[Fields] = (", *(f"        {pair}," for pair in pairs), "    )"]


def module_source() -> str:
    """Return the whole text of spec.py."""
    rows = list(read_protocol(PROTOCOL))
    names = {row.name: row for row in rows}
    methods = [
        "METHODS: dict[int, type[Method]] = {\n    method.INDEX: method\n    for method in (\n",
        *(f"        {row.type_name},\n" for row in rows),
        "    )\n}\n",
    ]
    hot = [f"{name.upper().replace('.', '_').replace('-', '_')} = 0x{names[name].index:08X}\n" for name in HOT]
    return "\n\n".join([HEAD, *map(method_source, rows), "".join(methods) + "\n" + "".join(hot)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Write src/leveret/wire/spec.py from the protocol table.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")
    check = parser.parse_args().check
    source = module_source()
    if not check:
        TARGET.write_text(source)
    elif not TARGET.exists() or TARGET.read_text() != source:
        print(f"{TARGET} is stale: run tools/generate_spec.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
