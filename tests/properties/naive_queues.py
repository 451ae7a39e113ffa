"""Messages in the queues of the naive broker: who gets them, when they are dropped, and where they go then.

What the protocol leaves open is open here too:

  (1) Who of several consumers gets a message, and which of several queues goes first on one channel, is read from what the
      clients heard; it must be somebody who may have it, and his turn.
  (2) What happens at the same moment may happen in any order: `choose` takes the first, or what the script says, and
      whoever compares tries the other scripts before there is a difference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.properties.naive_topology import Thing, Topology, Where

from leveret.wire import spec


class Difference(AssertionError):
    """The broker did not do what it should have done."""


class Queues(Topology):
    """Queues as lists that are sorted and searched; what has a time is found by looking at everything."""

    # One step

    def begin(self, deliveries: dict[Where, list[tuple[str, bytes]]], names: list[str], script: list[int]) -> None:
        """Begin a step in which clients heard these deliveries (consumer tag and body), and of these new queues."""
        self.said = {}
        self.heard = {where: list(some) for where, some in deliveries.items()}
        self.names = list(names)
        self.script = script
        self.chosen: list[tuple[int, int]] = []
        self.seen = []
        self.lost = False

    def choose(self, options: list[Any]) -> Any:
        """One of several that are all right."""
        if len(options) == 1:
            return options[0]
        at = self.script[len(self.chosen)] if len(self.chosen) < len(self.script) else 0
        self.chosen.append((at, len(options)))
        return options[at]

    def next_script(self) -> list[int] | None:
        """Other choices than those made in this step; None if all have been tried."""
        chosen = list(self.chosen)
        while chosen:
            at, count = chosen.pop()
            if at + 1 < count:
                return [*(at for at, _ in chosen), at + 1]
        return None

    # Messages in queues

    def first(self, queue: Thing) -> Thing | None:
        self.sort(queue)
        return queue["ready"][0] if queue["ready"] else None

    def sort(self, queue: Thing) -> None:
        queue["ready"].sort(key=lambda place: (-place["priority"], place["number"]))

    def accept(self, queue: Thing, message: Thing) -> bool:
        """Put a message at the end of a queue; False if it is refused."""
        key = self.deduplication_key(queue, message)
        if key is not None and self.is_known(queue, key):
            self.seen.append("deduplicated")
            return True
        overflow = self.setting(queue, "overflow")
        if overflow != "drop-head" and self.too_long(queue, 1, len(message["body"])):
            self.seen.append(overflow)
            if overflow == "reject-publish-dlx":
                self.die(queue, message, "maxlen")
            return False
        self.number += 1
        lives = [life for life in (self.setting(queue, "message-ttl"), message["life"]) if life is not None]
        place = {
            "number": self.number,
            "message": message,
            "priority": min(message["properties"].priority or 0, self.setting(queue, "max-priority") or 0),
            "redelivered": False,
            "returned": 0,
            "expires_at": self.now + min(lives) if lives else None,
        }
        queue["ready"].append(place)
        return True

    def arrived(self) -> None:
        """Something may go that was not there, or could not go, before."""
        self.deliver()
        self.expire()
        self.trim()
        self.deliver()

    def too_long(self, queue: Thing, more: int = 0, more_bytes: int = 0) -> bool:
        length, size = self.setting(queue, "max-length"), self.setting(queue, "max-length-bytes")
        ready = [len(place["message"]["body"]) for place in queue["ready"]]
        return (length is not None and len(ready) + more > length) or (size is not None and sum(ready) + more_bytes > size)

    def trim(self) -> None:
        for queue in list(self.queues.values()):
            while self.setting(queue, "overflow") == "drop-head" and queue["ready"] and self.too_long(queue):
                first = self.first(queue)
                assert first is not None
                self.drop(queue, first, self.choose(["expired", "maxlen"] if self.is_expired(first) else ["maxlen"]))

    def is_expired(self, place: Thing) -> bool:
        return place["expires_at"] is not None and place["expires_at"] <= self.now

    def expire(self) -> None:
        for queue in list(self.queues.values()):
            self.sort(queue)
            while expired := [place for place in queue["ready"] if self.is_expired(place)]:
                if expired[0] is not queue["ready"][0]:
                    expired.sort(key=lambda place: (place["expires_at"], place["number"]))
                self.drop(queue, self.choose(expired), "expired")

    def drop(self, queue: Thing, place: Thing, reason: str) -> None:
        queue["ready"] = [other for other in queue["ready"] if other is not place]
        self.left(queue, place)
        self.die(queue, place["message"], reason)

    def give_back(self, chosen: list[Thing]) -> None:
        """Put messages back where they were; what was given back too often dies."""
        self.unacked = [held for held in self.unacked if all(held is not one for one in chosen)]
        for held in chosen:
            queue, place = held["queue"], held["place"]
            place["redelivered"] = True
            place["returned"] += 1
            limit = self.setting(queue, "delivery-limit")
            if limit is not None and place["returned"] > limit:
                self.left(queue, place)
                self.die(queue, place["message"], "delivery_limit")
            elif not queue["deleted"]:
                if limit is not None:
                    place["message"] = with_headers(place["message"], {"x-delivery-count": place["returned"]})
                queue["ready"].append(place)
        self.trim()
        self.expire()
        self.deliver()

    def left(self, queue: Thing, place: Thing) -> None:
        """A message has left a queue, which may remember its key."""
        key = self.deduplication_key(queue, place["message"])
        if key is None:
            return
        size, life = queue["arguments"].get("x-cache-size"), queue["arguments"].get("x-cache-ttl")
        queue["remembered"] = [one for one in queue["remembered"] if one[0] != key] + [(key, self.now)]
        if size is not None:
            queue["remembered"] = queue["remembered"][-size:] if size else []
        elif not life:
            queue["remembered"] = []

    def deduplication_key(self, queue: Thing, message: Thing) -> Any:
        if not queue["arguments"].get("x-message-deduplication"):
            return None
        return (message["properties"].headers or {}).get("x-deduplication-header")

    def is_known(self, queue: Thing, key: Any) -> bool:
        here = queue["ready"] + [held["place"] for held in self.unacked if held["queue"] is queue]
        life = queue["arguments"].get("x-cache-ttl")
        recent = [one for one, left_at in queue["remembered"] if not life or self.now - left_at < life]
        return key in [self.deduplication_key(queue, place["message"]) for place in here] + recent

    # Who gets them

    def able(self, queue: Thing, place: Thing) -> list[Thing]:
        """The consumers who may get this message: of those with room, those with the highest priority."""
        consumers = self.consumers_of(queue)
        if queue["arguments"].get("x-single-active-consumer"):
            self.elect(queue)
            consumers = [consumer for consumer in consumers if consumer["number"] == queue["chosen"]]
        able = [consumer for consumer in consumers if self.has_room(consumer, len(place["message"]["body"]))]
        highest = max((consumer["priority"] for consumer in able), default=0)
        return [consumer for consumer in able if consumer["priority"] == highest]

    def elect(self, queue: Thing) -> None:
        """Have a single active consumer: the first of the highest priority, if the last one has left."""
        consumers = self.consumers_of(queue)
        if all(consumer["number"] != queue.get("chosen") for consumer in consumers):
            chosen = max(consumers, key=lambda consumer: consumer["priority"], default={"number": None})
            queue["chosen"] = chosen["number"]

    def has_room(self, consumer: Thing, size: int) -> bool:
        shared = self.channels[consumer["where"]]["shared"]
        held = [one for one in self.unacked if one["where"] == consumer["where"] and one["consumer"] is not None]
        if consumer["no_ack"]:
            return not shared[0] or len(held) < shared[0]
        mine = [one for one in held if one["consumer"] == consumer["number"]]
        return fits_window(consumer["prefetch"], mine, size) and fits_window(shared, held, size)

    def deliver(self) -> None:
        """Deliver for as long as there is a message and somebody for it."""
        moved = True
        while moved:
            moved = False
            for queue in list(self.queues.values()):
                first = self.first(queue)
                consumer = None if first is None else self.taker(queue, first)
                if first is not None and consumer is not None:
                    self.hand_over(queue, first, consumer)
                    moved = True

    def taker(self, queue: Thing, place: Thing) -> Thing | None:
        able = self.able(queue, place)
        body = place["message"]["body"]
        heard = [consumer for consumer in able if self.heard.get(consumer["where"], [])[:1] == [(consumer["tag"], body)]]
        if heard:
            chosen: Thing = self.choose(heard)
            waiting = [one for one in self.waiting(queue) if one["priority"] == chosen["priority"]]
            if chosen["number"] == queue["served"] and waiting:
                raise Difference(f"{body!r} of queue {queue['name']!r}: it was the turn of {waiting[0]['tag']!r}")
            queue["served"] = chosen["number"]
            queue["waiting"] = [one["number"] for one in able if one is not chosen]
            return chosen
        # Where there is still something to be heard, that may take the room first.
        if able and not any(self.heard.get(consumer["where"]) for consumer in able):
            who = [f"{consumer['tag']!r} of client {consumer['where'][0]}" for consumer in able]
            raise Difference(f"{body!r} of queue {queue['name']!r} was not delivered to {' or '.join(who)}")
        return None

    def waiting(self, queue: Thing) -> list[Thing]:
        """Those who had room for the last message too, and still have; sizes make turns too hard to foresee."""
        return [
            one
            for one in self.consumers_of(queue)
            if one["number"] in queue["waiting"]
            and self.has_room(one, 0)
            and not one["prefetch"][1]
            and not self.channels[one["where"]]["shared"][1]
        ]

    def hand_over(self, queue: Thing, place: Thing, consumer: Thing) -> None:
        channel = self.channels[consumer["where"]]
        self.heard[consumer["where"]].pop(0)
        queue["ready"] = [other for other in queue["ready"] if other is not place]
        tag = self.take(channel, queue, place, consumer["no_ack"], consumer["number"])
        message = place["message"]
        deliver = spec.BasicDeliver(consumer["tag"], tag, place["redelivered"], message["exchange"], message["key"])
        self.say(channel, deliver, (message["properties"], message["body"]))
        self.seen.append("redelivered" if place["redelivered"] else "delivered")

    def take(self, channel: Thing, queue: Thing, place: Thing, no_ack: bool, consumer: int | None) -> int:
        """A message goes to a client; its delivery tag."""
        channel["tag"] += 1
        held = {
            "where": channel["where"],
            "tag": channel["tag"],
            "queue": queue,
            "place": place,
            "consumer": consumer,
            "settled": False,
            "reads": self.reads,
        }
        if no_ack:
            self.left(queue, place)
        else:
            self.unacked.append(held)
        tag: int = channel["tag"]
        return tag

    # Dead letters

    def die(self, queue: Thing, message: Thing, reason: str) -> None:
        if self.setting(queue, "dead-letter-exchange") is None or queue["deleted"]:
            return
        if not queue["dead"]:
            self.later.append(("bury", queue))
        queue["dead"].append((message, reason))

    def do_everything_later(self) -> None:
        while self.later:
            self.do_later()

    def do_later(self) -> None:
        """Do one of the things that are still to be done."""
        at = self.choose(list(range(len(self.later))))
        what, queue = self.later.pop(at)
        if what == "delete" and not queue["deleted"] and not self.consumers_of(queue):
            self.seen.append("queue deleted by itself")
            self.remove_queue(queue)
        while what == "bury" and queue["dead"]:
            self.bury(queue, *queue["dead"].pop(0))

    def bury(self, queue: Thing, message: Thing, reason: str) -> None:
        """Publish a dead letter."""
        name, key = self.setting(queue, "dead-letter-exchange"), self.setting(queue, "dead-letter-routing-key")
        if name not in self.exchanges:
            return
        self.seen.append(f"dead: {reason}")
        headers = dict(message["properties"].headers or {})
        more = copies(headers, "CC")
        headers.pop("x-delivery-count", None)
        first = "x-death" not in headers
        headers["x-death"] = self.deaths(queue, message, reason)
        for fact, value in (("reason", reason), ("queue", queue["name"]), ("exchange", message["exchange"])):
            if first:
                headers[f"x-first-death-{fact}"] = value
            headers[f"x-last-death-{fact}"] = value
        keys = [message["key"], *more, *message["blind"]] if key is None else [key]
        if key is not None:
            headers.pop("CC", None)
        dead = {
            **message,
            "exchange": name,
            "key": keys[0],
            "blind": message["blind"] if key is None else [],
            "properties": replace(message["properties"], headers=headers, expiration=None),
            "life": None,
        }
        for target in self.routed(name, keys, headers):
            if self.goes_round(target["name"], reason, headers["x-death"]):
                self.seen.append("cycle")
            else:
                self.accept(target, dead)
        self.arrived()

    def deaths(self, queue: Thing, message: Thing, reason: str) -> list[Thing]:
        """The story of a message's deaths, the newest first, one for each queue and reason."""
        properties = message["properties"]
        deaths = list((properties.headers or {}).get("x-death", []))
        for death in deaths:
            if (death["queue"], death["reason"]) == (queue["name"], reason):
                deaths.remove(death)
                return [{**death, "count": death["count"] + 1}, *deaths]
        death = {
            "count": 1,
            "reason": reason,
            "queue": queue["name"],
            "time": self.now // 1000,
            "exchange": message["exchange"],
            "routing-keys": [message["key"], *copies(properties.headers or {}, "CC")],
        }
        if properties.expiration is not None:
            death["original-expiration"] = properties.expiration
        return [death, *deaths]

    def goes_round(self, name: str, reason: str, deaths: list[Thing]) -> bool:
        """Whether a message has died in this queue before, and no client has rejected it since."""
        queues = [death["queue"] for death in deaths]
        if reason == "rejected" or name not in queues:
            return False
        return all(death["reason"] != "rejected" for death in deaths[: queues.index(name) + 1])

    # Time and policies

    def wait(self, until: int, late: bool) -> None:
        """Let time pass: from one moment at which something is due to the next, or, if late, at once."""
        while True:
            self.now = until if late else min([until, *self.due_times()])
            self.expire()
            for queue in self.queues.values():
                if self.lease_ends(queue) is not None and self.lease_ends(queue) <= self.now:
                    self.later.append(("delete", queue))
            self.do_everything_later()
            self.arrived()
            self.do_everything_later()
            if self.now == until:
                return

    def due_times(self) -> list[int]:
        places = [place for queue in self.queues.values() for place in queue["ready"]]
        expiries = [place["expires_at"] for place in places]
        leases = [self.lease_ends(queue) for queue in self.queues.values()]
        return [time for time in expiries + leases if time is not None]

    def lease_ends(self, queue: Thing) -> Any:
        """When a queue that nobody uses is deleted."""
        expires = self.setting(queue, "expires")
        return None if expires is None or self.consumers_of(queue) else queue["used_at"] + expires

    def set_policy(self, operator: bool, name: str, policy: Thing | None) -> None:
        """Set a policy, or clear it; it counts for all queues there are."""
        self.policies.pop((operator, name), None)
        if policy is not None:
            self.number += 1
            self.policies[operator, name] = {**policy, "number": self.number}
        for queue in self.queues.values():
            self.follow(queue)
        self.trim()
        self.expire()
        self.deliver()


def copies(headers: Thing, name: str) -> list[str]:
    return list(headers.get(name, []))


def with_headers(message: Thing, headers: Thing) -> Thing:
    properties = message["properties"]
    return {**message, "properties": replace(properties, headers={**(properties.headers or {}), **headers})}


def fits_window(limits: tuple[int, int], held: list[Thing], size: int) -> bool:
    count, size_max = limits
    sizes = [len(one["place"]["message"]["body"]) for one in held]
    return (not count or len(sizes) < count) and (not size_max or not sizes or sum(sizes) + size <= size_max)
