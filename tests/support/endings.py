"""What is dear ends once nothing that is still to run asks for it: servers at rest take CPU, too."""

from collections import defaultdict
from contextlib import ExitStack

from tests.support.folders import ORDER, rank, rank_of


class Endings:
    """What to do after the last test of a folder, by one process of the run; tests come in the folders' order."""

    def __init__(self) -> None:
        self._after: defaultdict[int, ExitStack] = defaultdict(ExitStack)

    def after(self, folder: str) -> ExitStack:
        """Contexts and callbacks that end when the first test of a later folder begins, or with the run."""
        return self._after[rank_of(folder)]

    def before(self, nodeid: str) -> None:
        """End what no test asks for from this one on."""
        self._end(below=rank(nodeid))

    def all(self) -> None:
        """End what is left, the latest folder's last: the others may stand on it."""
        self._end(below=len(ORDER))

    def _end(self, below: int) -> None:
        for place in sorted(place for place in self._after if place < below):
            self._after.pop(place).close()
