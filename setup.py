"""Compile the hot modules: every `.py` under src/ with a `.pxd` of the same name beside it.

LEVERET_PURE=1, no Cython or no C compiler: the same files are installed and run as plain Python.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types come from the .pxd alone
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "auto_pickle": False,
}

# Messages and their places in queues: no matter for the garbage collector (see broker/message.py), and made anew often.
UNCOLLECTED = {"no_gc": True, "freelist": 512}
UNCOLLECTED_MODULES = ("leveret.broker.message",)


class OptionalBuild(build_ext):
    """Compile all or nothing: a compiled module needs the others compiled. Say so when the result is plain Python."""

    def run(self) -> None:
        for extension in self.extensions:
            extension.optional = True
        super().run()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        missing = [path for path in built if not path.exists()]
        if missing:
            for path in built:
                path.unlink(missing_ok=True)
            print(
                f"leveret: {len(missing)} modules could not be compiled (is there a C compiler?); installing plain Python",
                file=sys.stderr,
            )


def hot_modules() -> list[Extension]:
    if os.environ.get("LEVERET_PURE"):
        print("leveret: LEVERET_PURE is set, installing plain Python", file=sys.stderr)
        return []
    try:
        from Cython.Build import cythonize  # noqa: PLC0415 - it may not be there
        from Cython.Compiler.Options import get_directive_defaults  # noqa: PLC0415
    except ImportError:
        print("leveret: no Cython, installing plain Python", file=sys.stderr)
        return []
    paths = [p.with_suffix(".py") for p in sorted(Path("src").rglob("*.pxd")) if p.stem != "__init__"]
    extensions = [Extension(".".join(p.with_suffix("").parts[1:]), [str(p)], extra_compile_args=["-O3"]) for p in paths]
    # Cython takes these two as decorators only, which plain Python would stumble over; so make them known as settings.
    get_directive_defaults().update({"no_gc": False, "freelist": 0})
    return [
        *compiled([e for e in extensions if e.name not in UNCOLLECTED_MODULES], cythonize, DIRECTIVES),
        *compiled([e for e in extensions if e.name in UNCOLLECTED_MODULES], cythonize, DIRECTIVES | UNCOLLECTED),
    ]


def compiled(extensions: list[Extension], cythonize: Callable[..., list[Extension]], directives: dict) -> list[Extension]:
    return cythonize(
        extensions,
        build_dir="build/cython",
        include_path=["src"],
        compiler_directives=directives,
        annotate=bool(os.environ.get("LEVERET_ANNOTATE")),
    )


setup(ext_modules=hot_modules(), cmdclass={"build_ext": OptionalBuild})
