"""Errors of commands: one line on standard error, a hint if there is one, and an exit code.

Typer prints a usage error as a box of several lines, and any other error as a traceback.
"""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperGroup

from rackspan.api.reasons import Reason
from rackspan.child_process import CRASHED, DETAILED, INTERRUPTED
from rackspan.cli.rendering.stderr_lines import print_error, print_no_more
from rackspan.reconcile.failures import Failure, FailureError, KafkaSetting, Remedy

_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_KUBECTL = "kubectl-"
_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_OWN_SETTINGS = frozenset({KafkaSetting.PROPERTIES, KafkaSetting.TLS})
_NOT_THERE = frozenset({Reason.TOPOLOGY_NOT_FOUND, Reason.SECRET_NOT_FOUND, Reason.INVALID_SPEC})
_NUMBERS: Mapping[str, str] = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "greater_than_equal": "a number from {ge:.0f} on",
    "less_than_equal": "a number up to {le:.0f}",
}
"""What an option takes, by the type of pydantic's error."""


class ExitCode(IntEnum):
    """How a command ended, for scripts."""

    FINE = 0
    OUT_OF_COMPLIANCE = 1
    BAD_INPUT = 2
    KAFKA = 3
    UNFINISHED = 4
    STAYS = 5
    DEFECT = 70  # EX_SOFTWARE of sysexits.h
    CRASHED = CRASHED
    OUTPUT = 74  # EX_IOERR
    INTERRUPTED = INTERRUPTED


class DetailedExitCode(IntEnum):
    """How a command with `--detailed-exitcode` ended, as in Terraform."""

    NOTHING = 0
    FAILED = 1
    CHANGES = 2


class CommandError(Exception):
    """An error that ends a command with exit code `code`; `hint` says what to do next."""

    def __init__(self, message: str, hint: str = "", code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


@contextmanager
def detailed_exit_codes(*, asked: bool) -> Iterator[None]:
    """If `asked`, replace the exit code of an error by 1 in a typer.Exit, because 2 means that there are changes."""
    try:
        yield
    except typer.Exit as exit_:
        raise typer.Exit(DetailedExitCode.FAILED if asked and exit_.exit_code else exit_.exit_code) from exit_


@contextmanager
def failures_reported(settings: Mapping[KafkaSetting, str] | None = None) -> Iterator[None]:
    """Raise CommandError for a FailureError within this context, in the same way for every command.

    Wrong settings are bad input. Missing responses and refusals of Kafka and the API server have their own exit code.
    `settings` are names for the subject of a failure, by default those of a RackTopology.
    """
    try:
        yield
    except FailureError as error:
        found = command_error(error.failure, settings or {})
        found.hint = error.hint  # what it says beyond its failure, which objects keep
        raise found from error


def command_error(failure: Failure, settings: Mapping[KafkaSetting, str]) -> CommandError:
    """Return the error for a failure, as `failures_reported` describes."""
    wrong = failure.remedy is Remedy.SPEC or failure.setting in _OWN_SETTINGS or failure.reason in _NOT_THERE
    return CommandError(failure.message_with(settings), code=ExitCode.BAD_INPUT if wrong else ExitCode.KAFKA)


class OneLineErrors(TyperGroup):
    """The group of all commands, which prints every error as one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - always off below: errors are reported here
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command, and end the process with an exit code."""
        given = list(sys.argv[1:] if args is None else args)
        failed = DetailedExitCode.FAILED if DETAILED in given else None
        if sys.stdin is None:  # the caller has closed it
            sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - as long as the process
        try:
            with failures_reported():
                code = super().main(given, prog_name or called_as(), complete_var, False, windows_expand_args, **extra)
        except CommandError as error:
            print_error(str(error), error.hint)
            code = failed or error.code
        except _UsageError as error:
            used = _report_usage(error, self._path(given))
            code = failed or used
        except (typer.Abort, KeyboardInterrupt):
            code = ExitCode.INTERRUPTED
        except Exception as error:
            if given[:1] == ["operator"] or os.environ.get("RACKSPAN_DEBUG"):
                raise
            print_error(
                f"a defect of rackspan: {type(error).__name__}: {error}",
                "RACKSPAN_DEBUG=1 shows where; please report it",
            )
            code = failed or ExitCode.DEFECT
        sys.exit(code if isinstance(code, int) else 0)

    def _path(self, given: Sequence[str]) -> str:
        """Return the program and the command that the arguments call. Some usage errors do not know their command."""
        words, command = [called_as()], cast("Any", self)
        for word in given:
            command = getattr(command, "commands", {}).get(word)
            if command is None:
                break
            words.append(word)
            command = command.loaded(typer.Context(self)) if hasattr(command, "loaded") else command
        return " ".join(words)

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Read the arguments, and flush the output of `--help`."""
        if sys.stdout is None:
            raise CommandError("standard output is closed", "send it to a file, or to /dev/null", ExitCode.OUTPUT)
        with ending_with(ExitCode.FINE):
            return super().make_context(*arguments, **extra)
        raise typer.Exit  # a reader such as `head` has closed the pipe

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and flush its output."""
        with ending_with(ExitCode.FINE):
            return super().invoke(ctx)


@contextmanager
def _closed_pipe_as_error() -> Iterator[None]:
    """Raise BrokenPipeError where rich, which prints tables and `--help`, would end the process with exit code 1."""
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise


@contextmanager
def ending_with(code: int) -> Iterator[None]:
    """Print a result within this context, then exit with `code`, even if a reader such as `head` has closed the pipe.

    A typer.Exit raised within this context replaces `code`. Raises typer.Exit, and CommandError if the result cannot
    be written.
    """
    ending = None if code == ExitCode.FINE else typer.Exit(code)
    try:
        try:
            with _closed_pipe_as_error():
                yield
        except typer.Exit as exit_:
            ending = exit_
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more()
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            raise
        print_no_more()
        raise CommandError(f"the result cannot be written: {error.strerror}", code=ExitCode.OUTPUT) from error
    if ending is not None:
        raise ending


@contextmanager
def printing_first() -> Iterator[None]:
    """Print within this context what the user must see before anything changes. Raises CommandError if that fails."""
    try:
        with _closed_pipe_as_error():
            yield
        sys.stdout.flush()
    except OSError as error:
        print_no_more()
        raise CommandError(
            f"standard output: {error.strerror}; nothing was changed", "let something read all of it", ExitCode.OUTPUT
        ) from error


def not_written(path: Path, error: OSError) -> CommandError:
    """Return the error for a file that cannot be written, with the exit code of a full disk if it is one."""
    code = ExitCode.OUTPUT if error.errno in _CANNOT_WRITE else ExitCode.BAD_INPUT
    return CommandError(f"{path}: {error.strerror or error}", code=code)


def called_as() -> str:
    """Return the name of the program as typed. For `kubectl rackspan`, kubectl runs `kubectl-rackspan`."""
    name = Path(sys.argv[0]).name
    if name.startswith(_KUBECTL):
        return name.replace("-", " ", 1)
    return "rackspan" if name in ("__main__.py", "-c", "") else name


def _report_usage(error: Any, path: str) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        print_error(_usage(error), f"see {path} --help")
    code: int = error.exit_code
    return code


def _usage(error: Any) -> str:
    wrong = error.__cause__.errors()[0] if hasattr(error.__cause__, "errors") else {}
    if words := _NUMBERS.get(wrong.get("type", "")):
        return f"{error.param.opts[0]} takes {words.format_map(wrong.get('ctx', {}))}"
    message = " ".join(error.format_message().split())  # the choices are on lines of their own
    return message.replace("Value error, ", "").rstrip(".")  # some versions of typer add these
