"""The output of the demo: sentences, commands with their output, pictures, and checked claims."""

import subprocess
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from dev.demo.picture import ASCII, UNICODE, Glyphs, Line, Role
from dev.paths import REPOSITORY

WIDTH = 100
_STYLES = {
    Role.FRAME: "bright_black",
    Role.HEADING: "bright_black",
    Role.DOMAIN: "bold",
    Role.BROKER: "",
    Role.NOTHING: "bright_black",
    Role.REPLICA: "cyan",
    Role.LEADER: "bold green",
    Role.WRONG: "bold red",
}
_TIME_LIMIT = 240
_BAR = 40


class DemoError(RuntimeError):
    """A claim of the demo does not hold. The message is a sentence for the user."""


class Terminal:
    """Prints, and runs commands exactly as shown: by a shell, in the repository, with the environment of kubectl."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, soft_wrap=True)
        self._environment: Mapping[str, str] = {}
        self._acts: list[tuple[str, float]] = []
        utf8 = self._console.encoding.lower().startswith("utf")
        self.glyphs: Glyphs = UNICODE if utf8 else ASCII
        self._tick = "✓" if utf8 else "ok:"

    def use(self, environment: Mapping[str, str]) -> None:
        """Run commands in this environment from now on."""
        self._environment = environment

    @contextmanager
    def act(self, title: str) -> Iterator[None]:
        """Print the title of an act, and record its duration."""
        self._console.print(Text(f"\n== {title} ".ljust(WIDTH, "="), "bold blue"))
        started = time.monotonic()
        yield
        self._acts.append((title, time.monotonic() - started))

    def say(self, text: str) -> None:
        """Print a sentence between the commands."""
        self._console.print("\n" + textwrap.fill(text, min(WIDTH, self._console.width)))

    def show(self, command: str) -> None:
        """Show a command that the demo runs in another way, for example in the background."""
        self._console.print(Text(f"\n$ {command}", "bold"))

    def run(self, command: str) -> str:
        """Show a command, run it, and show and return its output. Raise DemoError if it fails."""
        self.show(command)
        try:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=REPOSITORY,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"`{command}` did not end within {_TIME_LIMIT} seconds") from error
        self._console.out((done.stdout + done.stderr).rstrip("\n").expandtabs(2), highlight=False)
        if done.returncode:
            raise DemoError(f"`{command}` exited with {done.returncode}")
        return done.stdout

    def draw(self, lines: tuple[Line, ...]) -> None:
        """Print a picture."""
        for line in lines:
            text = Text.assemble(*((span.text, _STYLES[span.role]) for span in line))
            text.rstrip()
            self._console.print(Text("  ") + text)

    def bar(self, done: int, whole: int, text: str) -> None:
        """Print a progress bar as a line."""
        full, empty = ("█", "░") if self._tick == "✓" else ("#", "-")
        filled = done * _BAR // max(whole, 1)
        self._console.print(f"  {full * filled}{empty * (_BAR - filled)} {done}/{whole}  {text}")

    def check(self, holds: bool, claim: str) -> None:  # noqa: FBT001 - the claim is the point
        """Print a claim that holds. Raise DemoError if it does not hold."""
        if not holds:
            raise DemoError(f"this claim does not hold: {claim}")
        self._console.print(Text(f"{self._tick} {claim}", "green"))

    def times(self) -> None:
        """Print the duration of each act."""
        self._console.print("\nHow long each act took, in seconds:")
        for title, seconds in self._acts:
            self._console.print(f"  {seconds:5.1f}  {title}")
        self._console.print(f"  {sum(seconds for _, seconds in self._acts):5.1f}  in all")
