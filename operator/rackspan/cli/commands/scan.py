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
            metavar="PATH", help="What `rackspan snapshot` wrote, or a folder of such files, one per cluster."
        ),
    ] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: Annotated[
        str | None,
        options.cluster_option(
            metavar="NAMESPACE/NAME",
            help="A RackTopology: its brokers' racks and its KafkaTopics are what the cluster is held against.",
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
            help="Show how near producers write: the client.rack of some, and how many have it. Repeat it. "
            "Default: what the RackTopology names.",
        ),
    ] = None,
    history: Annotated[
        str | None,
        _results_option(
            metavar="DIR",
            help="Keep what is found there, and compare with the scan before: a folder, or a URI such as s3a://…",
        ),
    ] = None,
    retention_days: Annotated[
        int | None, _results_option(min=1, max=36_500, help="Forget older days. Default: the history is kept for ever.")
    ] = None,
    scan_id: Annotated[
        str | None,
        _results_option(
            help="A name for this scan; one that the history has already is not run again. Default: the time."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        _results_option(metavar="FILE", dir_okay=False, help="Write the scan document there (JSON)."),
    ] = None,
    page: Annotated[
        Path | None, _results_option(metavar="FILE", dir_okay=False, help="Write the page there (HTML).")
    ] = None,
    publish: Annotated[
        bool, _results_option("--publish", help="With --topology: write its ComplianceReport in Kubernetes.")
    ] = False,
    watch: Annotated[
        bool,
        options.cluster_option(
            "--watch",
            help="With --topology: let the operator scan it, where and as its spec says, and wait for the report.",
        ),
    ] = False,
    timeout: Annotated[float, options.cluster_option(min=1, help="With --watch: seconds to wait at most.")] = 900,
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
        _engine_option(min=1, max=100_000, help="Parts in which Spark reads a cluster, at least."),
    ] = max(2, os.cpu_count() or 1),
    exit_zero: Annotated[
        bool, _results_option("--exit-zero", help="Exit with 0 even where something bad was found.")
    ] = False,
    output: options.Output = Format.TABLE,
) -> None:
    """Scan whole clusters: findings, what each loss would do, and how it was before.

    The exit code is 1 when something of severity high or critical was found. A cluster that cannot be read has a
    failed scan, and the others go on. Small clusters are scanned in this process, large and many ones on Spark.
    """
    scanning_clusters.scan(**locals())
