"""python -m dev.demo: from nothing to topics over regions, zones and racks, on real programs, checking what it says."""

import argparse
import signal
import sys
from types import FrameType

from dev.demo.acts import play
from dev.demo.stage import NAME
from dev.demo.terminal import DemoError, Terminal
from dev.paths import state_root
from dev.progress import AssetError, exclusive, say
from dev.stack import named_stacks
from dev.stack.kafka_distribution import KafkaToolError
from dev.stack.kubectl import KubectlError
from dev.stack.processes import ProcessDiedError, Processes

_EXPECTED = (
    AssetError,
    DemoError,
    KafkaToolError,
    KubectlError,
    ProcessDiedError,
    named_stacks.StackError,
    TimeoutError,
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running, to go on by hand")
    parser.add_argument(
        "--acts", type=int, metavar="N", help="play the first N acts only; 2 are what the tutorial needs"
    )
    return parser


def main() -> int:
    """Play the demo. What went wrong is a sentence on standard error, and the exit code is 1."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.acts is not None and arguments.acts < 1:
        parser.error("--acts needs 1 or more")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with exclusive(state_root() / "stacks" / f".{NAME}.lock"):
            _play(keep=arguments.keep, acts=arguments.acts)
    except _EXPECTED as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _play(*, keep: bool, acts: int | None) -> None:
    if named_stacks.down(NAME):
        say("ended the demo that was left here")
    terminal, directory = Terminal(), named_stacks.directory_of(NAME)
    processes = Processes.attached(directory)  # all of it dies with this process, unless it is told to stay
    try:
        play(terminal, directory, processes, acts)
        if keep:
            processes.stay()
    except BaseException:
        processes.end(grace=0)
        say(f"the demo's processes are ended; their logs are in {directory / 'logs'}")
        raise
    terminal.times()
    if keep:
        terminal.say("It goes on running until `make down`. To go on by hand:")
        terminal.show(f'eval "$({named_stacks.COMMAND} kubectl-env --name {NAME})"')
        terminal.show("kubectl get kafkatopics --namespace shop --watch")
    else:
        named_stacks.down(NAME)
        terminal.say("All of it is ended and deleted. `make demo DEMO_ARGS=--keep` leaves it running.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
