"""The audit log of a broker, as its operator reads it."""

import json
from pathlib import Path
from typing import Any

from tests.management.support import Running


def lines(broker: Running) -> list[dict[str, Any]]:
    marked = (line.partition("leveret.audit ") for line in broker.log.splitlines())
    return [json.loads(rest) for _, found, rest in marked if found]


def test_who_did_what_from_where(tmp_path: Path) -> None:
    with Running(tmp_path) as broker:
        http = broker.http()
        assert http.put("/api/users/shop", {"password": "hidden-word", "tags": "management"}).status == 201
        assert broker.http("shop", "wrong").ask("GET", "/api/whoami").status == 401
        assert broker.http("shop", "hidden-word").put("/api/vhosts/v").status == 401
        assert http.put("/api/queues/%2F/q").status == 201
        assert http.post("/api/definitions", {"vhosts": [{"name": "imported"}]}).status == 204
        assert http.delete("/api/users/shop").status == 204
        found = [(line["event"], line["result"], line.get("by", line.get("name"))) for line in lines(broker)]
        assert found == [
            ("user.created", "ok", "guest"),
            ("user.authentication.failure", "refused", "shop"),
            ("user.authentication.failure", "refused", "shop"),
            ("queue.created", "ok", "guest"),
            ("vhost.created", "ok", "guest"),
            ("user.deleted", "ok", "guest"),
        ]
        assert {line["address"] for line in lines(broker)} == {"127.0.0.1"}
        assert "hidden-word" not in broker.log
