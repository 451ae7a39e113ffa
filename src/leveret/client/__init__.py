"""An AMQP 0-9-1 client on asyncio, for what this broker and its programs do as clients of others."""
