"""The numbers of the journal's format, for all that read or write it; what they mean is told in `records.py`."""

MESSAGE, SETTLE, PURGE, REQUEUE, COMMIT = 1, 2, 3, 4, 5

HEAD_SIZE = 16
PLACES_AT = 48
PLACE_SIZE = 24
NUMBERS_SIZE = 32

# A location is a segment's number, shifted by 32, and an offset.
OFFSET_MASK = (1 << 32) - 1

# The numbers of the spill's segments begin here.
SPILL_NUMBER = 1 << 20

# What a place says at most of how often a message was given back.
COUNT_MAX = (1 << 16) - 1
