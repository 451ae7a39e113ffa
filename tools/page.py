"""Build the web page (web/) into src/leveret/management/page, from where it is installed with the package.

page.py     builds it if Node is there; without Node it says so, and the broker runs without its page

What the page is built with is in web/package-lock.json, checked by its hashes. The lock names no address; npm looks where
it is set up to.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
# Written by npm when it has installed all of the lock.
INSTALLED = WEB / "node_modules" / ".package-lock.json"


def npm(*arguments: str) -> None:
    subprocess.run(["npm", *arguments], cwd=WEB, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def main() -> None:
    if shutil.which("npm") is None:
        sys.stderr.write("There is no npm, so the web page is not built; the broker runs without it.\n")
        return
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < (WEB / "package-lock.json").stat().st_mtime:
        # Not `ci`: it fails where a registry lacks the programs of other platforms, which this one does not need.
        npm("install", "--no-save", "--silent", "--no-progress")
        INSTALLED.touch()
    npm("run", "--silent", "build", "--", "--logLevel", "warn")


if __name__ == "__main__":
    main()
