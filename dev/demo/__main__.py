"""python -m dev.demo: from nothing to topics over regions, zones and racks, on real programs, checking what it says."""

import argparse
import signal
import sys
from types import FrameType

from dev import stack
from dev.demo.acts import NAME, play
from dev.demo.terminal import DemoError, Terminal
from dev.kafka_dist import KafkaToolError
from dev.kubectl import KubectlError
from dev.paths import state_root
from dev.processes import ProcessDiedError, Processes
from dev.progress import AssetError, exclusive, say

_EXPECTED = (AssetError, DemoError, KafkaToolError, KubectlError, ProcessDiedError, stack.StackError, TimeoutError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running, to go on by hand")
    return parser


def main() -> int:
    """Play the demo. What went wrong is a sentence on standard error, and the exit code is 1."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with exclusive(state_root() / "stacks" / f".{NAME}.lock"):
            _play(keep=arguments.keep)
    except _EXPECTED as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _play(*, keep: bool) -> None:
    if stack.down(NAME):
        say("ended the demo that was left here")
    terminal, directory = Terminal(), stack.directory_of(NAME)
    processes = Processes.attached(directory)  # all of it dies with this process, unless it is told to stay
    try:
        play(terminal, directory, processes)
        if keep:
            processes.stay()
    except BaseException:
        processes.end(grace=0)
        say(f"the demo's processes are ended; their logs are in {directory / 'logs'}")
        raise
    terminal.times()
    if keep:
        terminal.say("It goes on running until `make down`. To go on by hand:")
        terminal.show(f'eval "$({stack.COMMAND} kubectl-env --name {NAME})"')
        terminal.show("kubectl get kafkatopics --namespace shop --watch")
    else:
        stack.down(NAME)
        terminal.say("All of it is ended and deleted. `make demo DEMO_ARGS=--keep` leaves it running.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
