"""The options of `rackspan scan`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rackspan.cli.actions import scanning_clusters
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app
from rackspan.jobs.scan.engine_choice import EngineChoice

app = command_app()
EPILOG = options.epilog(
    "$ rackspan scan --snapshot prod.json --levels region,zone,rack",
    "$ rackspan scan --snapshot snapshots/ --history /var/lib/rackspan --retention-days 365",
    "$ rackspan scan --bootstrap-server kafka:9092 --history s3a://audit/rackspan --page scan.html",
    "$ rackspan scan --topology kafka/prod --publish",
    "$ rackspan scan --topology kafka/prod --watch",
)
_engine_option, _results_option = options.in_panel("Engine"), options.in_panel("Results")


@app.command(epilog=EPILOG)
def scan(
    context: typer.Context,
    snapshot: Annotated[
        str | None,
        options.cluster_option(
            metavar="PATH", help="A file from `rackspan snapshot`, or a folder of such files, one per cluster."
        ),
    ] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: Annotated[
        str | None,
        options.cluster_option(
            metavar="NAMESPACE/NAME",
            is_eager=True,
            help="A RackTopology: judge the cluster by its racks and its KafkaTopics.",
        ),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    synthetic: Annotated[
        int | None,
        options.cluster_option(metavar="PARTITIONS", min=1, max=10**9, help="Make a cluster up, for load tests."),
    ] = None,
    levels: options.Levels = "",
    producers: Annotated[
        list[str] | None,
        options.cluster_option(
            metavar="RACK[=COUNT]",
            help="Show the locality of producers: a client.rack and how many producers have it. Repeat it. "
            "Default: those of the RackTopology.",
        ),
    ] = None,
    history: Annotated[
        str | None,
        _results_option(
            metavar="DIR",
            help="Keep the result in this history, and compare with the previous scan: a folder, or a URI such as s3a://…",
        ),
    ] = None,
    retention_days: Annotated[
        int | None, _results_option(min=1, max=36_500, help="Delete scans of older days. Default: keep all.")
    ] = None,
    scan_id: Annotated[
        str | None,
        _results_option(
            help="The name of this scan. A scan that the history has already is not run again. Default: the time."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        _results_option(metavar="FILE", dir_okay=False, help="Write the scan document to this file (JSON)."),
    ] = None,
    page: Annotated[
        Path | None, _results_option(metavar="FILE", dir_okay=False, help="Write the page to this file (HTML).")
    ] = None,
    publish: Annotated[
        bool, _results_option("--publish", help="With --topology: write its ComplianceReport in Kubernetes.")
    ] = False,
    watch: Annotated[
        bool,
        options.cluster_option(
            "--watch",
            help="With --topology: let the operator run the scan as the RackTopology says, and wait for the report.",
        ),
    ] = False,
    timeout: Annotated[
        str, options.cluster_option(metavar="TIME", help="With --watch: give up after this time, such as 90s or 1h30m.")
    ] = "15m",
    engine: Annotated[
        EngineChoice,
        _engine_option(
            help="This process or Spark. auto: this process for one cluster of less than 200,000 partitions "
            "without --master."
        ),
    ] = EngineChoice.AUTO,
    master: Annotated[
        str | None, _engine_option(help="Spark's master. Default: spark-submit's, else local[*].")
    ] = None,
    driver_memory: Annotated[str, _engine_option(help="Memory of Spark's driver.")] = "2g",
    slices: Annotated[
        int,
        _engine_option(min=1, max=100_000, help="The least number of parts in which Spark reads a cluster."),
    ] = max(2, os.cpu_count() or 1),
    exit_zero: Annotated[bool, _results_option("--exit-zero", help="Exit with 0 whatever was found.")] = False,
    output: options.Output = Format.TABLE,
) -> None:
    """Scan whole clusters: report findings, the effect of each loss, and the changes since the previous scan.

    The exit code is 1 if a finding has severity high or critical. If a cluster cannot be read, its scan fails and the
    others continue. A small cluster is scanned in this process; large clusters, and several at once, on Spark.
    """
    scanning_clusters.scan(**locals())
