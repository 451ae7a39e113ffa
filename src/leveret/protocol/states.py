"""The states of connections and channels.

A module of its own because compiled modules keep their numbers to themselves.
"""

# A connection: waiting for the protocol header, in the handshake, running, closing, closed as its client asked and waiting
# for it to end the socket, and ignoring what it still sends.
HEADER, HANDSHAKE, RUNNING, CLOSING, CLOSED, IGNORING_INPUT = 0, 1, 2, 3, 4, 5

# A channel: used for the first time, open, and closed for an error or by its client.
CHANNEL_STARTING, CHANNEL_OPEN, CHANNEL_CLOSING = 0, 1, 2
