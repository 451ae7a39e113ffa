"""The numbers of the journal's format, for all that read or write it; what they mean is told in `records.py`."""

MESSAGE, SETTLE, PURGE, REQUEUE, COMMIT, MARK = 1, 2, 3, 4, 5, 6

HEAD_SIZE = 16
PLACES_AT = 48
PLACE_SIZE = 24
NUMBERS_SIZE = 32

# A location is a segment's number, shifted by 32, and an offset.
OFFSET_MASK = (1 << 32) - 1

# The numbers of the spill's segments begin here; the journal's never come so far: it fails before.
SPILL_NUMBER = 1 << 30

# A place's number has this bit if the message counts as delivered before.
DELIVERED = 1 << 15
NUMBER_MASK = DELIVERED - 1

# A transaction's number has 40 bits: 32 where all records have it, and 8 beside the kind.
GROUP_MAX = (1 << 40) - 1
KIND_MASK = 255

# What a place says at most of how often a message was given back.
COUNT_MAX = (1 << 16) - 1
