"""The `rackspan` command, which is also `kubectl rackspan`. Subcommands are thin: their work is in `cli.actions`."""

from typing import Annotated, Any, Final

import typer

from rackspan.cli.shared.command_errors import OneLineErrors
from rackspan.cli.shared.later_command import MARKUP, LaterCommand, flags_as_flags
from rackspan.rack_id import SUMMARY as RACK_ID

_LOOK, _CHANGE, _KUBERNETES = "Look at a cluster", "Change a cluster", "In Kubernetes"
COMMANDS: Final = (
    LaterCommand("status", _LOOK, "Show the state of a RackTopology: what is wrong, why, and one next step."),
    LaterCommand("check", _LOOK, "Show what is wrong: unfair spread, partitions that are offline or behind."),
    LaterCommand("what-if", _LOOK, "Show what the loss of each domain, and of each broker, does to partitions."),
    LaterCommand("locality", _LOOK, "Show how near consumer groups read, what that costs, and what to change."),
    LaterCommand(
        "snapshot",
        _LOOK,
        "Write a cluster to one file, for all other commands to read instead of Kafka.",
        app="write_snapshot.app",
    ),
    LaterCommand("scan", _LOOK, "Scan whole clusters, and compare them with earlier scans."),
    LaterCommand("report", _LOOK, "Show the result of a scan: as a page, as text, or for programs."),
    LaterCommand("history", _LOOK, "Query the history of scans with SQL, or copy that of an earlier version."),
    LaterCommand("plan", _CHANGE, "Plan the fewest moves to compliance. Changes nothing."),
    LaterCommand("apply", _CHANGE, "Carry out a plan, or go on with one that was interrupted."),
    LaterCommand("watch", _CHANGE, "Follow the plan that is carried out until it ends. Changes nothing."),
    LaterCommand("drain", _CHANGE, "Move all replicas off brokers, or off all brokers below a rack."),
    LaterCommand("uncordon", _CHANGE, "End a drain: let brokers hold replicas again.", app="drain.uncordon_app"),
    LaterCommand("place", _CHANGE, "Place the replicas of a new topic, and print them. Changes nothing."),
    LaterCommand("import", _KUBERNETES, "Write KafkaTopic manifests of topics that exist.", app="import_topics.app"),
    LaterCommand("release", _KUBERNETES, "Take Rackspan's finalizers off objects, so that they can be deleted."),
    LaterCommand("rack-id", _KUBERNETES, RACK_ID, app="print_rack_id.app"),
    LaterCommand("operator", _KUBERNETES, "Run the operator until it is stopped.", app="run_operator.app"),
)


class Commands(OneLineErrors):
    """The group of all commands. A command's module is imported when the command is called or completed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in COMMANDS:
            self.add_command(command)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, with those for `--help` and for completion."""
        return flags_as_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded(ctx) if isinstance(command, LaterCommand) else command, rest


app = typer.Typer(
    name="rackspan",
    cls=Commands,
    help="Kafka topics whose replicas survive the loss of a rack, a zone or a data centre.",
    epilog="Every command has examples in its --help. --install-completion teaches your shell the options.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},  # of all commands, as rack-id has both
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version as version_of  # noqa: PLC0415 - takes a tenth of the time of --help

        print(f"rackspan {version_of('rackspan')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every subcommand."""
