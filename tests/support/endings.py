"""End expensive resources once no remaining test needs them, because idle servers use CPU, too."""

from collections import defaultdict
from contextlib import ExitStack

from tests.support.folders import ORDER, rank, rank_of


class Endings:
    """Callbacks after the last test of a folder, in one process of the run. Tests run in the order of the folders."""

    def __init__(self) -> None:
        self._after: defaultdict[int, ExitStack] = defaultdict(ExitStack)

    def after(self, folder: str) -> ExitStack:
        """Return the stack that closes when the first test of a later folder begins, or at the end of the run."""
        return self._after[rank_of(folder)]

    def before(self, nodeid: str) -> None:
        """Close the stacks of all folders before that of this test."""
        self._end(below=rank(nodeid))

    def all(self) -> None:
        """Close all stacks, that of the last folder last, because the others may depend on it."""
        self._end(below=len(ORDER))

    def _end(self, below: int) -> None:
        for place in sorted(place for place in self._after if place < below):
            self._after.pop(place).close()
