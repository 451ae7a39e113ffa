"""The README's commands do what it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.management.support import Running

README = Path(__file__).parents[2] / "README.md"


def test_leveretctl_of_the_readme_says_what_it_shows(tmp_path: Path) -> None:
    """SPEC §9.5: each command of the section, in order, and its whole output."""
    section = README.read_text(encoding="utf-8").partition("## Operating it")[2].partition("\n## ")[0]
    found = re.search(r"```console\n(.*?)```", section, re.DOTALL)
    assert found is not None
    steps = [step.partition("\n") for step in found[1].split("$ ")[1:]]
    assert len(steps) >= 8
    with Running(tmp_path):
        for command, _, shown in steps:
            name, *arguments = shlex.split(command)
            assert name == "leveretctl"
            whole = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(tmp_path / "data"), *arguments]
            done = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=60)
            assert (done.returncode, done.stdout, done.stderr) == (0, shown, ""), command
