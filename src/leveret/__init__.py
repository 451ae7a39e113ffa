"""Leveret, a message broker in Python that speaks AMQP 0-9-1 as RabbitMQ does."""

import os

__version__ = "0.1.0"


def _run_plain() -> None:
    """Have the .py files imported even where compiled modules lie beside them."""
    # Here, as `leveret --help` has to be quick.
    import sys  # noqa: PLC0415
    from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader  # noqa: PLC0415

    root = os.path.dirname(__file__)
    for folder in [root, *(entry.path for entry in os.scandir(root) if entry.is_dir())]:
        sys.path_importer_cache[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


if os.environ.get("LEVERET_PURE"):
    _run_plain()
