"""python -m dev.demo: create topics over regions, zones and racks, on real programs, and check each claim."""

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
    parser.add_argument("--keep", action="store_true", help="leave everything running, for your own commands")
    parser.add_argument("--acts", type=int, metavar="N", help="play only the first N acts; the tutorial needs 2")
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
        say("stopped a demo that was still running")
    terminal, directory = Terminal(), named_stacks.directory_of(NAME)
    processes = Processes.attached(directory)  # all processes end with this one, unless `stay` is called
    try:
        play(terminal, directory, processes, acts)
        if keep:
            processes.stay()
    except BaseException:
        processes.end(grace=0)
        say(f"the processes of the demo have ended; their logs are in {directory / 'logs'}")
        raise
    terminal.times()
    if keep:
        terminal.say("The stack runs until `make down`. For your own commands:")
        terminal.show(f'eval "$({named_stacks.COMMAND} kubectl-env --name {NAME})"')
        terminal.show("kubectl get kafkatopics --namespace shop --watch")
    else:
        named_stacks.down(NAME)
        terminal.say("The stack is stopped and deleted. `make demo DEMO_ARGS=--keep` leaves it running.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
