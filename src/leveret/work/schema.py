"""The JSON Schema of the files, for editors and for whoever writes them by program."""

from typing import Any

from leveret.work.checking import (
    DELIVERY_LIMIT_MAX,
    FUNCTION,
    MS_MAX,
    NAME_MAX,
    PREFETCH_COUNT_MAX,
    PREFETCH_SIZE_MAX,
    WORDS,
)
from leveret.work.metadata import (
    ACKNOWLEDGE_POLICIES,
    AFTER,
    BEFORE,
    MIN_LISTEN_MS,
    NEVER,
    ON_FAILURE,
    ON_FAILURE_DEAD_LETTER,
    RECEIPTS,
    REJECT_POLICIES,
    TIME_LIMIT_MS,
    TYPES,
    WHEN_OVERLOADED,
)

TEXT = {"type": "string"}
NAME = {"type": "string", "maxLength": NAME_MAX}
SOME_NAME = {**NAME, "minLength": 1}
MODULE_FUNCTION = {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}
ABOVE_NOTHING = {"type": "number", "exclusiveMinimum": 0}


def whole(least: int, most: int | None, default: int, about: str) -> dict[str, Any]:
    found = {"type": "integer", "minimum": least, "default": default, "description": about}
    return found if most is None else {**found, "maximum": most}


def where(field: str, values: list[str], then: dict[str, Any]) -> dict[str, Any]:
    """A rule that holds where a field has one of these values."""
    return {"if": {"required": [field], "properties": {field: {"enum": values}}}, "then": then}


def for_each(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule that each of an exchange's subscriptions must keep."""
    return {"properties": {"Subscriptions": {"items": rule}}}


def keyed(kind: str) -> dict[str, Any]:
    """An exchange of this type needs routing keys."""
    pattern = f"^(?:{WORDS[kind, False].pattern})$"
    return where("Type", [kind], for_each({"required": ["RoutingKey"], "properties": {"RoutingKey": {"pattern": pattern}}}))


BASE = {"Id": TEXT, "Name": NAME, "Caption": TEXT, "Description": TEXT}

SUBSCRIPTION: dict[str, Any] = {
    "type": "object",
    "description": "Which messages of the exchange are wanted, and what handles them.",
    "required": ["Handler"],
    "anyOf": [{"required": [name], "properties": {name: SOME_NAME}} for name in ("Name", "ConsumerId")],
    "allOf": [
        where(
            "AcknowledgePolicy",
            [BEFORE],
            {
                "not": {
                    "required": ["RejectPolicy"],
                    "properties": {"RejectPolicy": {"enum": [ON_FAILURE, ON_FAILURE_DEAD_LETTER]}},
                }
            },
        ),
        {
            "if": {"required": ["DeliveryLimit"], "properties": {"DeliveryLimit": {"minimum": 1}}},
            "then": {"required": ["RejectPolicy"], "properties": {"RejectPolicy": {"const": ON_FAILURE}}},
        },
    ],
    "additionalProperties": False,
    "properties": {
        **BASE,
        "Queue": {
            "description": "The queue. Default: exchange, dot, Name or ConsumerId.",
            "anyOf": [
                NAME,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"Name": NAME, "Arguments": {"type": "object"}},
                },
            ],
        },
        "ConsumerId": {**NAME, "description": "Says to the handler who it is; the consumer tag."},
        "RoutingKey": {**NAME, "description": "Which messages; required for Direct and Topic."},
        "RoutingHeaders": {
            "type": "object",
            "description": "Headers to match, flat or under Headers, with x-match all or any; required for Headers.",
            "properties": {"Headers": {"type": "object"}, "x-match": {"enum": ["all", "any"], "default": "all"}},
        },
        "PrefetchSize": whole(0, PREFETCH_SIZE_MAX, 0, "Bytes handled at once; 0 is no limit."),
        "PrefetchCount": whole(0, PREFETCH_COUNT_MAX, 0, "Messages handled at once; 0 is no limit."),
        "WorkerThreadCount": whole(1, None, 1, "Threads, each with its own connection; at most as many as there are cores."),
        "MinListenTime": whole(1, MS_MAX, MIN_LISTEN_MS, "ms; listening that ended sooner counts as a network failure."),
        "AcknowledgePolicy": {
            "enum": list(ACKNOWLEDGE_POLICIES),
            "default": AFTER,
            "description": "When the broker may forget the message.",
        },
        "RejectPolicy": {
            "default": NEVER,
            "description": "When a message is refused so that another consumer gets it.",
            "anyOf": [
                {"enum": list(REJECT_POLICIES)},
                MODULE_FUNCTION,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": [WHEN_OVERLOADED],
                    "properties": {
                        WHEN_OVERLOADED: {
                            "type": "object",
                            "additionalProperties": False,
                            "minProperties": 1,
                            "properties": {"Load": ABOVE_NOTHING, "InFlight": ABOVE_NOTHING},
                        }
                    },
                },
            ],
        },
        "DeliveryLimit": whole(
            0,
            DELIVERY_LIMIT_MAX,
            0,
            "How often a message that fails is given back before it is dead-lettered; 0 is for ever.",
        ),
        "Receipt": {
            "enum": list(RECEIPTS),
            "default": "Never",
            "description": "Whether the sender is told at its reply-to what has become of the message.",
        },
        "Handler": {
            "description": "module:function; a list, the command to run; or an http or https URL to POST to.",
            "anyOf": [
                MODULE_FUNCTION,
                {"type": "string", "pattern": "^https?://[!-~]+$"},
                {"type": "array", "prefixItems": [{"type": "string", "minLength": 1}], "items": TEXT, "minItems": 1},
            ],
        },
        "HandlerTimeLimit": whole(1, MS_MAX, TIME_LIMIT_MS, "ms; how long a command or a URL may take."),
    },
}

EXCHANGE: dict[str, Any] = {
    "type": "object",
    "description": "An exchange with its subscriptions.",
    "required": ["Name"],
    "allOf": [keyed("Direct"), keyed("Topic"), where("Type", ["Headers"], for_each({"required": ["RoutingHeaders"]}))],
    "additionalProperties": False,
    "properties": {
        **BASE,
        "Name": SOME_NAME,
        "Type": {"enum": list(TYPES), "default": "Fanout"},
        "Durable": {"type": "boolean", "default": True},
        "Subscriptions": {"type": "array", "items": {"$ref": "#/$defs/Subscription"}},
    },
}


def schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Subscriptions for leveret work",
        "anyOf": [{"$ref": "#/$defs/Exchange"}, {"type": "array", "items": {"$ref": "#/$defs/Exchange"}}],
        "$defs": {"Exchange": EXCHANGE, "Subscription": SUBSCRIPTION},
    }
