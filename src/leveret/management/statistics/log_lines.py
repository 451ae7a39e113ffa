"""The last lines of the log, for who follows it on the web page. A handler beside the one that writes to stderr."""

import logging
from collections import deque
from typing import NamedTuple

LINES_MAX = 2_000
CHARACTERS_MAX = 4_000


class Line(NamedTuple):
    """One record, the `number`th; `at` in ms."""

    number: int
    at: int
    level: str
    logger: str
    text: str


class LogLines(logging.Handler):
    """Keeps the last `LINES_MAX` records of the broker's loggers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._kept: deque[Line] = deque(maxlen=LINES_MAX)

    def open(self) -> None:
        logging.getLogger("leveret").addHandler(self)

    def close(self) -> None:
        logging.getLogger("leveret").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.count += 1
        line = Line(self.count, int(record.created * 1000), record.levelname.lower(), record.name, text[:CHARACTERS_MAX])
        self._kept.append(line)

    def since(self, number: int) -> list[Line]:
        """What came after the line with this number, as far as it is kept."""
        return [line for line in list(self._kept) if line.number > number]
