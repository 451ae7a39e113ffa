"""What becomes of a message: for each pair of policies and each outcome, what the broker has left and which receipt is sent.

acked: it is gone. requeued: it is back in its queue and comes again at once. dead-lettered: it is where dead letters go.
unacked: the broker keeps it for this connection, and gives it to others when that ends. redelivered: it is back in its queue
because the connection ended. `docs/subscriptions.md` shows the same table.
"""

OUTCOMES = ("success", "exception", "crash", "cut", "overload")

ACKNOWLEDGE = ("AlwaysAfterHandling", "AlwaysBeforeHandling", "OnlyOnSuccessHandling")
REJECT = ("Never", "OnFailure", "OnFailureDeadLetter", "WhenOverloaded", "module:function")

# What is left of the message, and the outcome that the receipt says ("" if none is sent).
Fate = tuple[str, str]

HANDLED: Fate = ("acked", "handled")
REFUSED: Fate = ("requeued", "rejected")
BACK: Fate = ("redelivered", "")
LOST: Fate = ("acked", "")

TABLE: dict[tuple[str, str], dict[str, Fate] | None] = {
    ("AlwaysAfterHandling", "Never"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("AlwaysAfterHandling", "OnFailure"): {
        "success": HANDLED,
        "exception": ("requeued", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("AlwaysAfterHandling", "OnFailureDeadLetter"): {
        "success": HANDLED,
        "exception": ("dead-lettered", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("AlwaysAfterHandling", "WhenOverloaded"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": REFUSED,
    },
    ("AlwaysAfterHandling", "module:function"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": REFUSED,
    },
    ("AlwaysBeforeHandling", "Never"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": LOST,
        "cut": LOST,
        "overload": HANDLED,
    },
    ("AlwaysBeforeHandling", "OnFailure"): None,  # the check refuses it
    ("AlwaysBeforeHandling", "OnFailureDeadLetter"): None,
    ("AlwaysBeforeHandling", "WhenOverloaded"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": LOST,
        "cut": LOST,
        "overload": REFUSED,
    },
    ("AlwaysBeforeHandling", "module:function"): {
        "success": HANDLED,
        "exception": ("acked", "failed"),
        "crash": LOST,
        "cut": LOST,
        "overload": REFUSED,
    },
    ("OnlyOnSuccessHandling", "Never"): {
        "success": HANDLED,
        "exception": ("unacked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("OnlyOnSuccessHandling", "OnFailure"): {
        "success": HANDLED,
        "exception": ("requeued", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("OnlyOnSuccessHandling", "OnFailureDeadLetter"): {
        "success": HANDLED,
        "exception": ("dead-lettered", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": HANDLED,
    },
    ("OnlyOnSuccessHandling", "WhenOverloaded"): {
        "success": HANDLED,
        "exception": ("unacked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": REFUSED,
    },
    ("OnlyOnSuccessHandling", "module:function"): {
        "success": HANDLED,
        "exception": ("unacked", "failed"),
        "crash": BACK,
        "cut": BACK,
        "overload": REFUSED,
    },
}
PAIRS = [pair for pair, fates in TABLE.items() if fates is not None]
REFUSED_PAIRS = [pair for pair, fates in TABLE.items() if fates is None]
ROWS = [(*pair, outcome) for pair in PAIRS for outcome in OUTCOMES]


def shown(fate: Fate) -> str:
    """A cell of the documents' table."""
    left, receipt = fate
    return f"{left}; {receipt or 'no receipt'}"
