"""A parser for the Dockerfile syntax that this project uses."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction, for example `COPY` and `operator/ operator/`. Continuation lines are joined."""

    word: str
    rest: str

    def words(self) -> list[str]:
        """Return the operands, including flags such as --from."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions after one FROM, up to the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, word: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.word == word]

    def one(self, word: str) -> Instruction:
        (instruction,) = self.all(word)
        return instruction


def read(path: Path) -> tuple[dict[str, str], dict[str, Stage]]:
    """Return the default values of the arguments before the first FROM, and the stages by name."""
    lines = [line for line in path.read_text().splitlines() if not re.match(r"\s*(#|$)", line)]
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            stages.append(Stage(base, name))
        elif stages:
            stages[-1].instructions.append(Instruction(word, rest))
        else:
            name, _, default = rest.partition("=")
            arguments[name] = default
    return arguments, {stage.name: stage for stage in stages}
