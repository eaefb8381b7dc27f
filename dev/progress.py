"""Long commands: progress on standard error, and locks so that two processes never do the same work at once."""

import fcntl
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_LINE_EVERY_SECONDS = 10.0


class AssetError(RuntimeError):
    """A program or file that is needed cannot be downloaded, built or found. The message says what to do."""


def say(message: str) -> None:
    """Print a line on standard error: standard output is for the command's result."""
    print(f"[dev] {message}", file=sys.stderr, flush=True)


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the file `lock` while the context lasts; another process waits for it. A crash frees it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another session is at work on {lock.parent.name}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def need(tool: str, purpose: str) -> str:
    """Path of an executable of the machine. Raises AssetError, which says what the tool is needed for."""
    found = shutil.which(tool)
    if found is None:
        raise AssetError(f"`{tool}` is not on PATH; it is needed to {purpose}. Install it and try again.")
    return found


def run(
    command: Sequence[str],
    what: str,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    tally: Callable[[str], bool] | None = None,
) -> None:
    """Run `command`, saying every ten seconds how long `what` has taken and how many output lines `tally` has counted.

    Raises AssetError with the end of the output when the command fails.
    """
    say(what)
    started = time.monotonic()
    tail: deque[str] = deque(maxlen=25)
    counted = 0
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        finished = threading.Event()

        def tick() -> None:
            while not finished.wait(_LINE_EVERY_SECONDS):
                count = f", {counted} items so far" if tally else ""
                say(f"  ... {time.monotonic() - started:.0f} s{count}")

        ticker = threading.Thread(target=tick, daemon=True)
        ticker.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                tail.append(line)
                counted += bool(tally and tally(line))
        except BaseException:
            process.kill()
            raise
        finally:
            finished.set()
            ticker.join()
    if process.returncode:
        raise AssetError(f"{what}: `{command[0]}` exited with {process.returncode}\n{''.join(tail)}")
    say(f"  done in {time.monotonic() - started:.0f} s")
