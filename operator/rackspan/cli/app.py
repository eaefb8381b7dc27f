"""The `rackspan` command, which is also `kubectl rackspan`: subcommands are thin; what they do lives elsewhere."""

from importlib.metadata import version as version_of
from typing import Annotated

import typer

from rackspan.cli.commands import (
    apply,
    check,
    drain,
    import_topics,
    locality,
    place,
    plan,
    rack_id,
    release,
    report,
    run_operator,
    scan,
    snapshot,
    watch,
    what_if,
)
from rackspan.cli.shared.command_errors import OneLineErrors

app = typer.Typer(
    name="rackspan",
    cls=OneLineErrors,
    help="Kafka topics whose replicas survive the loss of a rack, a zone or a data centre.",
    epilog="Every command has examples in its --help. --install-completion teaches your shell the options.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        print(f"rackspan {version_of('rackspan')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every subcommand."""


app.command(epilog=snapshot.EPILOG)(snapshot.snapshot)
app.command(epilog=plan.EPILOG)(plan.plan)
app.command(epilog=apply.EPILOG)(apply.apply)
app.command(epilog=watch.EPILOG)(watch.watch)
app.command(epilog=drain.DRAIN_EPILOG)(drain.drain)
app.command(epilog=drain.UNCORDON_EPILOG)(drain.uncordon)
app.command(epilog=check.EPILOG)(check.check)
app.command(epilog=what_if.EPILOG)(what_if.what_if)
app.command(epilog=locality.EPILOG)(locality.locality)
app.command(epilog=place.EPILOG)(place.place)
app.add_typer(import_topics.app)
app.command(epilog=scan.EPILOG)(scan.scan)
app.add_typer(report.app)
app.command(rack_id.NAME, help=rack_id.SUMMARY, context_settings=rack_id.SETTINGS)(rack_id.rack_id)
app.command(epilog=release.EPILOG)(release.release)
app.command(epilog=run_operator.EPILOG)(run_operator.operator)
