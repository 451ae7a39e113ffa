"""Field tables and properties as JSON has them, and back.

(1) What the wire has and JSON has not becomes the nearest: every kind of integer a number, octets and odd text as far as
    they are UTF-8, decimals numbers.
(2) Numbers from JSON are 64 bits wide, or doubles, as RabbitMQ takes them.
"""

from dataclasses import fields
from decimal import Decimal

from leveret.errors import PreconditionFailed, SyntaxFault
from leveret.management.http.answer import bad_request
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.json_names import as_text
from leveret.server.from_json import TABLE_BYTES_MAX, checked_name, checked_table
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.values import Table, Value

NUMBERS = ("delivery_mode", "priority", "timestamp")
# All of them go to a consumer in one frame.
PROPERTIES_MAX = TABLE_BYTES_MAX - 64


def to_json(value: Value) -> Json:
    """A field-table value as JSON can say it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal):
        return float(value)
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {as_text(name): to_json(item) for name, item in value.items()}
    return [to_json(item) for item in value]


def properties_view(properties: Properties) -> JsonObject:
    """The properties that are there."""
    found = {field.name: getattr(properties, field.name) for field in fields(properties)}
    return {name: to_json(value) for name, value in found.items() if value is not None}


def parse_table(value: Json, name: str = "arguments") -> Table:
    """A field table from JSON; nothing is an empty one."""
    # RabbitMQ: an empty list is an empty table too; some clients have no other.
    if value in (None, [], ""):
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object")
    try:
        return checked_table(value, name)
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None


def parse_key(value: Json) -> str:
    """A routing key from JSON."""
    # RabbitMQ: null is none.
    if value is not None and not isinstance(value, str):
        raise bad_request("routing_key must be text")
    try:
        return checked_name(value or "", "routing_key")
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None


def parse_properties(value: Json) -> Properties:
    """A message's properties from JSON; what is no property is left out, as RabbitMQ does."""
    if value in (None, [], ""):
        value = {}
    if not isinstance(value, dict):
        raise bad_request("properties must be an object")
    properties = Properties()
    for field in fields(properties):
        if value.get(field.name) is not None:
            setattr(properties, field.name, _property(field.name, value[field.name]))
    try:
        if len(encode_properties(properties)) > PROPERTIES_MAX:
            raise bad_request(f"properties must not be larger than {PROPERTIES_MAX} bytes")
    except (ValueError, KeyError, SyntaxFault) as error:
        raise bad_request(f"properties: {error}") from None
    return properties


def _property(name: str, value: Json) -> Value:
    if name == "headers":
        return parse_table(value, "headers")
    if name in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_request(f"{{not_int,{name}}}")
    elif not isinstance(value, str):
        raise bad_request(f"{{not_string,{name}}}")
    return value
