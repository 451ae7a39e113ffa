"""The busiest threads, in the form in which RabbitMQ's plug-in of that name shows Erlang's processes."""

import os
import threading

from leveret.management.http.json import JsonObject
from leveret.management.http.list_query import sort_key, value_at
from leveret.management.http.request import Request, parse_int
from leveret.management.http.route import ADMINISTRATOR, Result, Route

ROW_COUNT = 20


def thread_view(thread: threading.Thread) -> JsonObject:
    """A thread, under the names that processes have there; a reduction is a µs."""
    return {
        "pid": f"<0.{thread.native_id or 0}.0>",
        "name": {"type": "registered", "name": thread.name},
        "registered_name": thread.name,
        "status": "running" if thread.is_alive() else "exiting",
        "reductions": processor_us(thread.native_id or 0),
        "reduction_delta": 0,
        "memory": 0,
        "message_queue_len": 0,
        "buffer_len": -1,
    }


def processor_us(native_id: int) -> int:
    """How long a thread has been at work; 0 where it is not told."""
    try:
        with open(f"/proc/self/task/{native_id}/stat", "rb") as file:
            # After the name, which may have spaces in it.
            words = file.read().rpartition(b") ")[2].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")


def get_top(request: Request) -> Result:
    """The busiest threads; `sort`, `sort_reverse` and `row_count` choose them."""
    request.check_node()
    count = max(0, parse_int(request.query.get("row_count", ROW_COUNT), "row_count"))
    by = request.query.get("sort") or "reductions"
    rows = [thread_view(thread) for thread in threading.enumerate()]
    # RabbitMQ: the largest first, unless it is reversed.
    rows.sort(key=lambda row: sort_key(value_at(row, by)), reverse=request.query.get("sort_reverse") != "true")
    return {"node": request.path["node"], "row_count": count, "processes": rows[:count]}


ROUTES = [
    Route("GET", "/api/top/{node}", ADMINISTRATOR, get_top),
]
