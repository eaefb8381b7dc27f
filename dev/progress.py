"""Long commands: progress on standard error, and locks so that two processes do not do the same work at once."""

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
    """A required program or file cannot be downloaded, built or found. The message has the remedy."""


def say(message: str) -> None:
    """Print a line on standard error. Standard output is for the result of the command."""
    print(f"[dev] {message}", file=sys.stderr, flush=True)


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the lock file during the context. Other processes wait for it. A crash releases it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process works on {lock.parent.name}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def need(tool: str, purpose: str) -> str:
    """Return the path of an executable. Raise AssetError, with the purpose, if it is missing."""
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
    """Run `command`. Every ten seconds, print the time since the start and how many output lines `tally` accepted.

    Raises AssetError with the end of the output if the command fails.
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
