"""Leveret, a message broker in Python that speaks AMQP 0-9-1 as RabbitMQ does."""

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

__version__ = "0.1.0"

# LEVERET_PURE=1 runs the .py files even where compiled modules lie beside them.
if os.environ.get("LEVERET_PURE"):
    for _folder in [Path(__file__).parent, *Path(__file__).parent.glob("*/")]:
        sys.path_importer_cache[str(_folder)] = FileFinder(str(_folder), (SourceFileLoader, SOURCE_SUFFIXES))
