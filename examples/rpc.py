"""RPC: a client sends requests and waits for the answers.

A request says in reply_to which queue the answer is to go to, and in correlation_id which request it is, for answers may
come in any order. Here two calls are under way at once, and the one sent later is answered first.
"""

import asyncio
import sys
import uuid

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"


async def serve(channel: AbstractChannel) -> str:
    """Answer requests for squares and return the name of the queue that takes them."""

    async def on_request(request: AbstractIncomingMessage) -> None:
        number = int(request.body)
        await asyncio.sleep(number / 20)  # hard work
        print(f"server: {number} squared is {number**2}")
        reply = aio_pika.Message(str(number**2).encode(), correlation_id=request.correlation_id)
        await channel.default_exchange.publish(reply, routing_key=request.reply_to or "")
        await request.ack()

    queue = await channel.declare_queue(exclusive=True)
    await queue.consume(on_request)
    return queue.name


class Client:
    """Calls the server; one queue takes the answers to all calls."""

    def __init__(self, channel: AbstractChannel, requests: str, replies: str) -> None:
        self.channel, self.requests, self.replies = channel, requests, replies
        self.calls: dict[str, asyncio.Future[int]] = {}

    async def on_reply(self, reply: AbstractIncomingMessage) -> None:
        self.calls.pop(reply.correlation_id or "").set_result(int(reply.body))

    async def square(self, number: int) -> int:
        print(f"client: what is {number} squared?")
        call = str(uuid.uuid4())
        answer = self.calls[call] = asyncio.Future[int]()
        request = aio_pika.Message(str(number).encode(), correlation_id=call, reply_to=self.replies)
        await self.channel.default_exchange.publish(request, routing_key=self.requests)
        return await answer


async def main() -> None:
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        replies = await channel.declare_queue(exclusive=True)
        client = Client(channel, await serve(await connection.channel()), replies.name)
        await replies.consume(client.on_reply, no_ack=True)
        print("client: the answers are", *await asyncio.gather(client.square(12), client.square(2)))


asyncio.run(main())
