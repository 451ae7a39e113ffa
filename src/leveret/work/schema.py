"""The JSON Schema of subscription files, for editors and for programs that write such files."""

from leveret.work.subscription import (
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
from leveret.work.validation import (
    DELIVERY_LIMIT_MAX,
    FUNCTION,
    MS_MAX,
    NAME_MAX,
    PREFETCH_COUNT_MAX,
    PREFETCH_SIZE_MAX,
    WORDS,
)

# A JSON Schema, or a part of one.
Schema = dict[str, object]

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "maxLength": NAME_MAX}
SOME_NAME: Schema = {**NAME, "minLength": 1}
MODULE_FUNCTION: Schema = {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}


def whole(least: int, most: int | None, default: int, about: str) -> Schema:
    found: Schema = {"type": "integer", "minimum": least, "default": default, "description": about}
    return found if most is None else {**found, "maximum": most}


def where(field: str, values: list[str], then: Schema) -> Schema:
    """A rule that applies where a field has one of these values."""
    return {"if": {"required": [field], "properties": {field: {"enum": values}}}, "then": then}


def for_each(rule: Schema) -> Schema:
    """A rule for each of an exchange's subscriptions."""
    return {"properties": {"Subscriptions": {"items": rule}}}


def keyed(kind: str) -> Schema:
    """The subscriptions of an exchange of this type need routing keys."""
    pattern = f"^(?:{WORDS[kind, False].pattern})$"
    return where("Type", [kind], for_each({"required": ["RoutingKey"], "properties": {"RoutingKey": {"pattern": pattern}}}))


BASE: Schema = {"Id": TEXT, "Name": NAME, "Caption": TEXT, "Description": TEXT}

SUBSCRIPTION: Schema = {
    "type": "object",
    "description": "Which messages of the exchange to consume, and what handles them.",
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
            "description": "The queue. Default: the exchange's name, a dot, and Name or ConsumerId.",
            "anyOf": [
                NAME,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"Name": NAME, "Arguments": {"type": "object"}},
                },
            ],
        },
        "ConsumerId": {**NAME, "description": "The consumer tag, which handlers and receipts get too."},
        "RoutingKey": {**NAME, "description": "The binding's routing key; required for Direct and Topic."},
        "RoutingHeaders": {
            "type": "object",
            "description": "Headers to match, flat or under Headers, with x-match all or any; required for Headers.",
            "properties": {"Headers": {"type": "object"}, "x-match": {"enum": ["all", "any"], "default": "all"}},
        },
        "PrefetchSize": whole(0, PREFETCH_SIZE_MAX, 0, "Prefetch limit in bytes; 0 is no limit."),
        "PrefetchCount": whole(0, PREFETCH_COUNT_MAX, 0, "Prefetch limit in messages; 0 is no limit."),
        "WorkerThreadCount": whole(1, None, 1, "Threads, each with its own connection; at most as many as there are cores."),
        "MinListenTime": whole(1, MS_MAX, MIN_LISTEN_MS, "ms; a connection that ends sooner counts as a network failure."),
        "AcknowledgePolicy": {
            "enum": list(ACKNOWLEDGE_POLICIES),
            "default": AFTER,
            "description": "When a message is acknowledged.",
        },
        "RejectPolicy": {
            "default": NEVER,
            "description": "When a message is rejected, so that another consumer gets it or it is dead-lettered.",
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
                            "properties": {"Load": POSITIVE, "InFlight": POSITIVE},
                        }
                    },
                },
            ],
        },
        "DeliveryLimit": whole(
            0,
            DELIVERY_LIMIT_MAX,
            0,
            "How often a message that fails is requeued before it is dead-lettered; 0 is no limit.",
        ),
        "Receipt": {
            "enum": list(RECEIPTS),
            "default": "Never",
            "description": "Whether the sender is told, at its reply-to, what became of the message.",
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

EXCHANGE: Schema = {
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


def schema() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Subscriptions for leveret work",
        "anyOf": [{"$ref": "#/$defs/Exchange"}, {"type": "array", "items": {"$ref": "#/$defs/Exchange"}}],
        "$defs": {"Exchange": EXCHANGE, "Subscription": SUBSCRIPTION},
    }
