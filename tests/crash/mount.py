"""The platter as a mounted file system, in a process of its own that can be told to lose power.

mount.py FOLDER IMAGE     mounts what the image holds, or an empty disk, until SIGTERM

A line on standard input arms it: `cut OPERATIONS SEED SHARE`. After so many operations, just before the next one (or the
first one after the line `now`), what a power cut would leave is written to the image, `cut` is said on standard output,
and every operation from then on fails with EIO: no sync returns that the disk would not have.
"""

import errno
import os
import pickle
import select
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.crash.platter import Content, Folder, Platter
from tests.debian import FUSERMOUNT, PackageMissing, need

START_S = 20.0
# A real disk takes its time; meanwhile more is written elsewhere.
SYNC_S = 0.004
FREE_BLOCKS = 1 << 20


def need_fuse() -> None:
    """PackageMissing if the machine cannot mount a file system of ours."""
    need(FUSERMOUNT)
    if not Path("/dev/fuse").exists():
        raise PackageMissing("/dev/fuse is missing: the kernel, or the container, has no FUSE")


class Mount:
    """The file system's process, for a test: mounted when entered, unmounted and ended when left."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder = folder
        self._image = image

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, __file__, str(self.folder), str(self._image)]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + START_S
        while not os.path.ismount(self.folder):
            if self._popen.poll() is not None or time.monotonic() > deadline:
                self._end()
                raise PackageMissing(f"{self.folder} could not be mounted: {command} said why")
            time.sleep(0.005)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        if os.path.ismount(self.folder):
            subprocess.run(["fusermount3", "-u", "-z", str(self.folder)], check=True)
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()

    def cut_after(self, operations: int, seed: int, share: float) -> None:
        """Cut the power before the operation that comes after so many."""
        self._say(f"cut {operations} {seed} {share}")

    def wait_for_cut(self, seconds: float) -> None:
        """Wait for it; if there are not so many operations it comes now."""
        assert self._popen.stdout is not None
        if not select.select([self._popen.stdout], [], [], seconds)[0]:
            self._say("now")
            while not select.select([self._popen.stdout], [], [], 0.01)[0]:
                with suppress(OSError):
                    os.listdir(self.folder)
        assert self._popen.stdout.readline() == "cut\n"

    def _say(self, line: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{line}\n")
        self._popen.stdin.flush()


class Power:
    """Counts operations, and ends them; `left` is how many there are to be yet, -1 for any number."""

    def __init__(self, platter: Platter, image: Path) -> None:
        self._platter = platter
        self._image = image
        self.left = -1
        self._seed = 0
        self._share = 0.0
        self._off = False

    def arm(self, operations: int, seed: int, share: float) -> None:
        self._seed, self._share = seed, share
        self.left = operations

    def use(self) -> None:
        """One operation, or EIO."""
        if self.left == 0 and not self._off:
            self._off = True
            self._image.write_bytes(pickle.dumps(self._platter.after_cut(self._seed, self._share)))
            sys.stdout.write("cut\n")
            sys.stdout.flush()
        if self._off:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.left > 0:
            self.left -= 1


def file_system(platter: Platter, power: Power) -> Any:
    """The operations that FUSE asks for."""
    from mfusepy import Operations

    random = Random(0)

    class Disk(Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            power.use()
            node = platter.find(path)
            if isinstance(node, Folder):
                return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": len(node.live)}

        def readdir(self, path: str, fh: int) -> list[str]:
            power.use()
            return [".", "..", *platter.folder(path).live]

        def mkdir(self, path: str, mode: int) -> int:
            power.use()
            platter.add(path, Folder())
            return 0

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            power.use()
            platter.add(path, Content())
            return 0

        def open(self, path: str, flags: int) -> int:
            power.use()
            platter.file(path)
            return 0

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            power.use()
            return platter.file(path).read(offset, size)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            power.use()
            platter.file(path).write(offset, data)
            return len(data)

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            power.use()
            platter.file(path).truncate(length)
            return 0

        def unlink(self, path: str) -> int:
            power.use()
            platter.remove(path)
            return 0

        def rmdir(self, path: str) -> int:
            return self.unlink(path)

        def rename(self, old: str, new: str) -> int:
            power.use()
            platter.rename(old, new)
            return 0

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            time.sleep(random.random() * SYNC_S)
            power.use()
            platter.file(path).sync()
            return 0

        def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
            time.sleep(random.random() * SYNC_S)
            power.use()
            platter.folder(path).sync()
            return 0

        def chmod(self, path: str, mode: int) -> int:
            return 0

        def chown(self, path: str, uid: int, gid: int) -> int:
            return 0

        def utimens(self, path: str, times: Any = None) -> int:
            return 0

        def statfs(self, path: str) -> dict[str, int]:
            return {
                "f_bsize": 4096,
                "f_frsize": 4096,
                "f_blocks": FREE_BLOCKS,
                "f_bfree": FREE_BLOCKS,
                "f_bavail": FREE_BLOCKS,
            }

    return Disk()


def main() -> None:
    import mfusepy

    folder, image = sys.argv[1], Path(sys.argv[2])
    platter: Platter = pickle.loads(image.read_bytes()) if image.exists() else Platter()
    power = Power(platter, image)

    def listen() -> None:
        for line in sys.stdin:
            match line.split():
                case ["cut", operations, seed, share]:
                    power.arm(int(operations), int(seed), float(share))
                case ["now"]:
                    power.left = 0

    threading.Thread(target=listen, daemon=True).start()
    # It says so in this way that a signal has ended it.
    with suppress(RuntimeError):
        mfusepy.FUSE(file_system(platter, power), folder, foreground=True, nothreads=True)


if __name__ == "__main__":
    main()
