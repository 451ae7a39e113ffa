"""A broker in plain lists and dictionaries: what the real one is compared with, step by step.

Written from the specification and from what RabbitMQ does, with nothing clever in it. Here is what clients say; what there
is and what becomes of messages is in `naive_topology` and `naive_queues`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.properties.naive_queues import Difference, Queues, copies
from tests.properties.naive_topology import Fault, Thing, Where

from leveret.wire import spec
from leveret.wire.properties import Properties

Content = tuple[Properties, bytes]

NAMES = {
    320: "CONNECTION_FORCED",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    530: "NOT_ALLOWED",
}


@dataclass
class Close:
    """A close that is to come."""

    fault: Fault
    index: int

    def fits(self, heard: object) -> bool:
        if not isinstance(heard, spec.ChannelClose | spec.ConnectionClose):
            return False
        if (heard.reply_code, heard.class_id << 16 | heard.method_id) != (self.fault.code, self.index):
            return False
        return any(heard.reply_text.startswith(f"{NAMES[self.fault.code]} - {text}") for text in self.fault.texts)


@dataclass
class Confirm:
    """A confirm that is to come, alone or with others."""

    number: int
    taken: bool
    returned: bool


class Naive(Queues):
    """The whole broker, as its clients know it."""

    # One step

    def hear(self, where: Where, method: spec.Method, content: Content | None = None) -> None:
        """A client says something on a channel."""
        if isinstance(method, spec.ChannelOpen):
            self.channels[where] = new_channel(where)
            self.say(self.channels[where], spec.ChannelOpenOk())
            return
        channel = self.channels.get(where)
        if channel is None:
            return
        if channel["closing"]:
            if isinstance(method, spec.ChannelCloseOk):
                del self.channels[where]
            return
        act: Callable[..., None] = getattr(self, "on_" + method.NAME.replace(".", "_").replace("-", "_"))
        try:
            if content is None:
                act(channel, method)
            else:
                act(channel, method, content)
        except Fault as fault:
            self.seen.append(f"closed with {fault.code}")
            if fault.code < 500:
                self.say(channel, Close(fault, method.INDEX))
                channel["closing"] = True
                self.leave([channel])
            else:
                self.said.setdefault((where[0], 0), []).append(Close(fault, method.INDEX))
                self.lose(where[0])
                self.lost = True

    def end(self) -> None:
        """Do what is left to do; nothing may wait then that could go."""
        self.do_everything_later()
        self.expire()
        self.do_everything_later()
        for queue in self.queues.values():
            first = self.first(queue)
            if first is not None and self.able(queue, first):
                raise Difference(f"{first['message']['body']!r} waits in queue {queue['name']!r} and could go to a consumer")
            queue["waiting"] = [one["number"] for one in self.waiting(queue)]
        for where, left in self.heard.items():
            if left:
                raise Difference(f"client {where[0]} channel {where[1]} heard a delivery too many: {left[0]}")

    # The ends of channels and connections

    def on_channel_close(self, channel: Thing, m: spec.ChannelClose) -> None:
        self.leave([channel])
        del self.channels[channel["where"]]
        self.say(channel, spec.ChannelCloseOk())

    def lose(self, client: int) -> None:
        """A connection is gone, and with it its channels and its exclusive queues."""
        channels = [channel for where, channel in self.channels.items() if where[0] == client]
        self.channels = {where: channel for where, channel in self.channels.items() if where[0] != client}
        for queue in [queue for queue in self.queues.values() if queue["owner"] == client]:
            self.remove_queue(queue)
        self.leave(channels)

    def leave(self, channels: list[Thing]) -> None:
        """All at once, these channels stop consuming and give back what they have not acknowledged."""
        wheres = [channel["where"] for channel in channels]
        left = [consumer for consumer in self.consumers if consumer["where"] in wheres]
        self.consumers = [consumer for consumer in self.consumers if consumer["where"] not in wheres]
        for consumer in left:
            self.consumer_left(consumer["queue"])
        for channel in channels:
            channel["transaction"] = None
        self.give_back([held for where in wheres for held in self.unacked if held["where"] == where])

    # Publishing

    def on_basic_publish(self, channel: Thing, m: spec.BasicPublish, content: Content) -> None:
        properties, body = content
        if self.find_exchange(m.exchange)["internal"]:
            raise Fault(403, f"cannot publish to internal exchange '{m.exchange}' in vhost '/'")
        if properties.user_id not in (None, "guest"):
            raise Fault(406, f"user_id property set to '{properties.user_id}' but authenticated user was 'guest'")
        if properties.expiration is not None and not properties.expiration.isdigit():
            raise Fault(406, f"invalid expiration '{properties.expiration}': ")
        headers = properties.headers or {}
        for name in ("CC", "BCC"):
            if not isinstance(headers.get(name, []), list):
                raise Fault(406, f'invalid message: {{unacceptable_type_in_header,"{name}",')
        keys = [m.routing_key, *copies(headers, "CC"), *copies(headers, "BCC")]
        queues = self.routed(m.exchange, keys, headers)
        if "BCC" in headers:
            properties = replace(properties, headers={name: headers[name] for name in headers if name != "BCC"})
        message = {
            "exchange": m.exchange,
            "key": m.routing_key,
            "blind": copies(headers, "BCC"),
            "properties": properties,
            "body": body,
            "life": None if properties.expiration is None else int(properties.expiration),
        }
        if channel["transaction"] is not None:
            channel["transaction"].append(("publish", message, queues, m.mandatory))
            return
        returned = m.mandatory and not queues
        if returned:
            self.say(channel, spec.BasicReturn(312, "NO_ROUTE", m.exchange, m.routing_key), (properties, body))
            self.seen.append("returned")
        taken = self.accept_all(queues, message)
        if channel["confirming"]:
            channel["published"] += 1
            self.say(channel, Confirm(channel["published"], taken, returned))
            self.seen.append("confirmed" if taken else "refused")

    def accept_all(self, queues: list[Thing], message: Thing) -> bool:
        taken = [self.accept(queue, message) for queue in queues]
        self.arrived()
        return all(taken)

    def on_confirm_select(self, channel: Thing, m: spec.ConfirmSelect) -> None:
        if channel["transaction"] is not None:
            raise Fault(406, "cannot switch from tx to confirm mode")
        channel["confirming"] = True
        self.answer(channel, m, spec.ConfirmSelectOk())

    # Transactions

    def on_tx_select(self, channel: Thing, m: spec.TxSelect) -> None:
        if channel["confirming"]:
            raise Fault(406, "cannot switch from confirm to tx mode")
        channel["transaction"] = channel["transaction"] or []
        self.say(channel, spec.TxSelectOk())

    def on_tx_commit(self, channel: Thing, m: spec.TxCommit) -> None:
        if channel["transaction"] is None:
            raise Fault(406, "channel is not transactional")
        acts, channel["transaction"] = channel["transaction"], []
        taken = True
        for _, message, queues, mandatory in [act for act in acts if act[0] == "publish"]:
            live = [queue for queue in queues if not queue["deleted"]]
            if mandatory and not live:
                returned = spec.BasicReturn(312, "NO_ROUTE", message["exchange"], message["key"])
                self.say(channel, returned, (message["properties"], message["body"]))
            taken = self.accept_all(live, message) and taken
        for _, how, chosen in [act for act in acts if act[0] == "settle"]:
            self.settle(chosen, how)
        self.seen.append("committed")
        if not taken:
            raise Fault(406, "partial tx completion")
        self.say(channel, spec.TxCommitOk())

    def on_tx_rollback(self, channel: Thing, m: spec.TxRollback) -> None:
        if channel["transaction"] is None:
            raise Fault(406, "channel is not transactional")
        for held in self.unacked:
            if held["where"] == channel["where"]:
                held["settled"] = False
        channel["transaction"] = []
        self.seen.append("rolled back")
        self.say(channel, spec.TxRollbackOk())

    # Consuming

    def on_basic_get(self, channel: Thing, m: spec.BasicGet) -> None:
        queue = self.find_queue(channel, m.queue)
        queue["used_at"] = self.now
        first = self.first(queue)
        if first is None:
            self.say(channel, spec.BasicGetEmpty())
            return
        queue["ready"] = queue["ready"][1:]
        tag = self.take(channel, queue, first, m.no_ack, None)
        message = first["message"]
        count = len(queue["ready"])
        found = spec.BasicGetOk(tag, first["redelivered"], message["exchange"], message["key"], count)
        self.say(channel, found, (message["properties"], message["body"]))
        self.seen.append("got")
        self.arrived()

    def on_basic_qos(self, channel: Thing, m: spec.BasicQos) -> None:
        if not m.global_:
            channel["prefetch"] = (m.prefetch_count, m.prefetch_size)
        channel["shared"] = (m.prefetch_count, m.prefetch_size) if m.global_ else (0, 0)
        self.say(channel, spec.BasicQosOk())
        self.arrived()

    def on_basic_consume(self, channel: Thing, m: spec.BasicConsume) -> None:
        if any((one["where"], one["tag"]) == (channel["where"], m.consumer_tag) for one in self.consumers):
            raise Fault(530, f"attempt to reuse consumer tag '{m.consumer_tag}'")
        queue = self.find_queue(channel, m.queue)
        others = self.consumers_of(queue)
        alone = m.exclusive and (others or queue["arguments"].get("x-single-active-consumer"))
        if alone or any(one["exclusive"] for one in others):
            raise Fault(403, f"queue '{queue['name']}' in vhost '/' in exclusive use")
        self.elect(queue)
        self.number += 1
        consumer = {
            "number": self.number,
            "where": channel["where"],
            "tag": m.consumer_tag,
            "queue": queue,
            "no_ack": m.no_ack,
            "exclusive": m.exclusive,
            "priority": m.arguments.get("x-priority", 0),
            "prefetch": channel["prefetch"],
            "notified": channel["where"][0] % 3 != 2,
        }
        self.consumers.append(consumer)
        self.elect(queue)
        self.answer(channel, m, spec.BasicConsumeOk(m.consumer_tag))
        self.arrived()

    def on_basic_cancel(self, channel: Thing, m: spec.BasicCancel) -> None:
        left = [one for one in self.consumers if (one["where"], one["tag"]) == (channel["where"], m.consumer_tag)]
        self.consumers = [one for one in self.consumers if all(one is not other for other in left)]
        for consumer in left:
            self.consumer_left(consumer["queue"])
        self.answer(channel, m, spec.BasicCancelOk(m.consumer_tag))
        self.arrived()

    def consumer_left(self, queue: Thing) -> None:
        queue["used_at"] = self.now
        if queue["auto_delete"] and not self.consumers_of(queue):
            self.later.append(("delete", queue))

    def on_basic_ack(self, channel: Thing, m: spec.BasicAck) -> None:
        self.settled(channel, m.delivery_tag, m.multiple, "acked")

    def on_basic_nack(self, channel: Thing, m: spec.BasicNack) -> None:
        self.settled(channel, m.delivery_tag, m.multiple, "requeued" if m.requeue else "rejected")

    def on_basic_reject(self, channel: Thing, m: spec.BasicReject) -> None:
        self.settled(channel, m.delivery_tag, False, "requeued" if m.requeue else "rejected")

    def outstanding(self, where: Where) -> list[Thing]:
        return [held for held in self.unacked if held["where"] == where and not held["settled"]]

    def settled(self, channel: Thing, tag: int, multiple: bool, how: str) -> None:
        known = self.outstanding(channel["where"])
        if not (tag == 0 and multiple) and all(held["tag"] != tag for held in known):
            raise Fault(406, f"unknown delivery tag {tag}")
        if tag == 0:
            chosen = [one for one in known if one["consumer"] is None or one["reads"] < self.reads]
        else:
            chosen = [one for one in known if one["tag"] == tag or (multiple and one["tag"] < tag)]
        self.seen.append(how)
        if channel["transaction"] is None:
            self.settle(chosen, how)
            return
        for held in chosen:
            held["settled"] = True
        channel["transaction"].append(("settle", how, chosen))

    def settle(self, chosen: list[Thing], how: str) -> None:
        if how == "requeued":
            self.give_back(chosen)
            return
        self.unacked = [held for held in self.unacked if all(held is not one for one in chosen)]
        for held in chosen:
            self.left(held["queue"], held["place"])
            if how == "rejected":
                self.die(held["queue"], held["place"]["message"], "rejected")
        self.arrived()

    def on_basic_recover(self, channel: Thing, m: spec.BasicRecover) -> None:
        self.say(channel, spec.BasicRecoverOk())
        self.give_back(self.outstanding(channel["where"]))


def new_channel(where: Where) -> Thing:
    return {
        "where": where,
        "closing": False,
        "confirming": False,
        "published": 0,
        "transaction": None,
        "tag": 0,
        "prefetch": (0, 0),
        "shared": (0, 0),
        "last_queue": "",
    }
