"""The options of `rackspan snapshot`."""

from typing import Annotated

from rackspan.cli.actions import writing_snapshots
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan snapshot --bootstrap-server kafka:9092 -o json > prod.json",
    "$ kafka-log-dirs.sh --bootstrap-server kafka:9092 --describe > dirs.txt; rackspan snapshot --bootstrap-server "
    "kafka:9092 --log-dirs dirs.txt > prod.json",
    "$ rackspan snapshot --snapshot prod.json -o table",
)


@app.command(epilog=EPILOG)
def snapshot(
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    log_dirs: options.LogDirs = None,
    output: Annotated[
        Format,
        options.output_option("--output", "-o", help="How to print the snapshot. Other commands read only json."),
    ] = Format.JSON,
) -> None:
    """Write a cluster's brokers, racks and partitions to a file that other commands read instead of Kafka."""
    writing_snapshots.snapshot(**locals())
