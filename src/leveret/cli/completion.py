"""Completion in shells for leveretctl, which takes its arguments apart itself: click is told of commands and options.

With `_LEVERETCTL_COMPLETE=bash_source` in the environment it prints what bash must be told, and with `bash_complete` what a
word may become; likewise for zsh and fish.
"""

import os
import sys
from collections.abc import Iterable

import click
from click.shell_completion import shell_complete

from leveret.cli.aliases import tool_name


def complete(commands: Iterable[str], with_value: Iterable[str], without_value: Iterable[str]) -> None:
    """Do what a shell asks for, and exit; nothing if none does."""
    tool = tool_name()
    variable = f"_{tool}_COMPLETE".replace("-", "_").upper()
    instruction = os.environ.get(variable)
    if instruction:
        options = [click.Option([f"--{name}"]) for name in sorted(with_value)]
        options += [click.Option([f"--{name}"], is_flag=True) for name in sorted(without_value)]
        options += [click.Option(["-p", "vhost_"]), click.Option(["-q", "quiet_"], is_flag=True)]
        known = {name: click.Command(name, params=list(options)) for name in commands}
        group = click.Group(tool, commands=known, params=list(options))
        sys.exit(shell_complete(group, {}, tool, variable, instruction))
