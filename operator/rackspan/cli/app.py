"""The `rackspan` command: subcommands are thin; what they do lives elsewhere."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import kopf
import typer

from rackspan.settings import Settings

app = typer.Typer(
    name="rackspan",
    help="Kafka topics whose replicas survive the loss of a rack, a zone or a data centre.",
    no_args_is_help=True,
)


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


def _print_version(value: bool) -> None:
    if value:
        print(f"rackspan {version('rackspan')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every subcommand."""


@app.command()
def operator(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            envvar="RACKSPAN_KUBECONFIG",
            exists=True,
            dir_okay=False,
            help="Default: the Pod's service account, else KUBECONFIG, else ~/.kube/config.",
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", envvar="RACKSPAN_NAMESPACES", help="Watch only these (repeat it). Default: all."
        ),
    ] = None,
    resync: Annotated[
        float,
        typer.Option(
            envvar="RACKSPAN_RESYNC_SECONDS", min=1, help="Seconds between comparisons of a whole Kafka cluster."
        ),
    ] = 60.0,
    listen_host: Annotated[
        str, typer.Option(envvar="RACKSPAN_LISTEN_HOST", help="Address of /metrics, /healthz and /readyz.")
    ] = "0.0.0.0",  # noqa: S104 - probes and Prometheus come from outside the Pod
    listen_port: Annotated[
        int, typer.Option(envvar="RACKSPAN_LISTEN_PORT", min=0, max=65535, help="Port of the same; 0 for any.")
    ] = 8080,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="RACKSPAN_LOG_FORMAT", help="How log lines look.")
    ] = LogFormat.JSON,
    log_level: Annotated[LogLevel, typer.Option(envvar="RACKSPAN_LOG_LEVEL", help="Least severity.")] = LogLevel.INFO,
) -> None:
    """Run the operator: reconcile RackTopologies and KafkaTopics until stopped.

    Examples:
      rackspan operator                                         in a Pod, all namespaces

      rackspan operator --kubeconfig ~/.kube/config --log-format text -n kafka
    """
    from rackspan.main import run  # noqa: PLC0415 - other subcommands need neither kopf nor Kafka

    kopf.configure(
        debug=log_level is LogLevel.DEBUG,
        quiet=log_level is LogLevel.WARNING,
        log_format=kopf.LogFormat.JSON if log_format is LogFormat.JSON else kopf.LogFormat.FULL,
    )
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    asyncio.run(
        run(
            Settings(
                kubeconfig=kubeconfig,
                namespaces=tuple(namespace or ()),
                resync_seconds=resync,
                listen_host=listen_host,
                listen_port=listen_port,
            )
        )
    )
