"""Options that several commands share, so that they have the same names and help texts."""

import re
from collections.abc import Callable, Collection
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rackspan.cli.rendering.output_formats import Format, ProgressFormat
from rackspan.cli.shared.command_errors import CommandError


class MissingRackPolicy(StrEnum):
    """What to do if only some brokers have a rack."""

    FAIL = "fail"
    IGNORE = "ignore"


class FileCheck(StrEnum):
    """Whether the API server checks the files too, in kubectl's words."""

    NONE = "none"
    SERVER = "server"


class DryRun(StrEnum):
    """Whether anything is changed, in kubectl's words."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


class LogFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


def in_panel(panel: str) -> Callable[..., Any]:
    """Return `typer.Option` for options that `--help` shows in a panel."""
    return partial(typer.Option, rich_help_panel=panel)


cluster_option, output_option = in_panel("The cluster"), in_panel("Output")
_topology_option = in_panel("Racks and brokers")
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})", re.ASCII)
_MOST_PORT = 65_535
_OPTION = re.compile("--[a-z-]+")


def servers(given: str | None) -> str | None:
    """Raise CommandError for a text that is not a list of servers, before a client tries until its timeout."""
    for server in [] if given is None else given.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 1 <= int(found["port"]) <= _MOST_PORT:
            raise CommandError(f'--bootstrap-server "{given}": {_wrong_with(server.strip())}', "write HOST:PORT")
    return given


def _wrong_with(server: str) -> str:
    if not server:
        return "a server is empty"
    if "://" in server:
        return f'"{server}" is a URL'
    host, _, port = server.rpartition(":")
    if ":" not in server:
        return f'"{server}" has no port'
    if _SERVER.fullmatch(f"{host}:1") is None:
        return f'"{host}" is not a host name'
    return f'"{port}" is not a port from 1 to {_MOST_PORT}'


def _kubeconfig(option: Callable[..., Any], purpose: str = "", **settings: Any) -> Any:
    default = "Default: the Pod's service account, else KUBECONFIG, else ~/.kube/config."
    return option(envvar="RACKSPAN_KUBECONFIG", dir_okay=False, help=f"{purpose}{default}", **settings)


def path(text: str) -> Path:
    """Return the path. Raises typer.BadParameter for an empty text, which would mean the working directory."""
    if not text:
        raise typer.BadParameter("the path is empty")
    return Path(text)


def once(context: typer.Context, given: str | list[str] | None) -> str | list[str] | None:
    """Raise CommandError if standard input, `-`, is named a second time: the first read leaves nothing."""
    files = [given] if isinstance(given, str) else given or []
    context.meta[__name__] = read = context.meta.get(__name__, 0) + files.count("-")
    if read > 1:
        raise CommandError("standard input can be read once only", "name a file in place of one -")
    return given


def typed_options(context: typer.Context) -> list[str]:
    """Return the options on the command line, by their long names, without those from the environment."""
    sources = [(one.opts[0], context.get_parameter_source(one.name or "")) for one in context.command.params]
    return [option for option, source in sources if source is not None and source.name == "COMMANDLINE"]


def refuse_alone(typed: Collection[str], *pairs: tuple[str, str]) -> None:
    """Raise CommandError for an option without the option that it needs. Each pair has an option and what it is for."""
    for option, purpose in pairs:
        if option in typed and not {*_OPTION.findall(purpose)}.intersection(typed):
            raise CommandError(f"{option} is for {purpose}")


def _with_topology(context: typer.Context, given: Path | None) -> Path | None:
    """Raise CommandError for --kubeconfig without --topology, which is eager, so that it is read before this option."""
    refuse_alone(typed_options(context), ("--kubeconfig", "--topology"))
    return given


SnapshotFile = Annotated[
    str | None,
    cluster_option(
        "--snapshot", metavar="FILE", callback=once, help="A file from `rackspan snapshot`; - is standard input."
    ),
]
BootstrapServer = Annotated[
    str | None,
    cluster_option(metavar="HOST:PORT,…", callback=servers, help="The servers of a live cluster; several with commas."),
]
CommandConfig = Annotated[
    Path | None,
    cluster_option(
        metavar="FILE",
        parser=path,
        help="Client properties for the live cluster, as Kafka's own tools take them (TLS, SASL).",
    ),
]
TopologyName = Annotated[
    str | None,
    cluster_option(
        "--topology",
        metavar="NAMESPACE/NAME",
        is_eager=True,
        help="A RackTopology: live Kafka, with racks from nodes and requirements from KafkaTopics.",
    ),
]
RequiredTopology = Annotated[
    str | None,
    typer.Option("--topology", metavar="NAMESPACE/NAME", is_eager=True, help="The RackTopology of the cluster."),
]
Kubeconfig = Annotated[Path | None, _kubeconfig(cluster_option, "For --topology. ", callback=_with_topology)]
OperatorKubeconfig = Annotated[Path | None, _kubeconfig(typer.Option)]
LogDirs = Annotated[
    str | None,
    cluster_option(
        metavar="FILE",
        callback=once,
        help="Sizes of partitions: the output of kafka-log-dirs.sh --describe; - is standard input.",
    ),
]
Levels = Annotated[
    str,
    _topology_option(
        metavar="NAME,…",
        help="Names of the steps of rack ids, top first, such as region,zone,rack. Default: level-1, level-2 …",
    ),
]
MissingRacks = Annotated[
    MissingRackPolicy,
    _topology_option(
        "--missing-rack-policy",
        help="If only some brokers have a rack: refuse, or ignore the racks of all brokers.",
    ),
]
DrainBroker = Annotated[
    list[str] | None,
    _topology_option(
        metavar="ID,…",
        help="A broker to empty, or one that never comes back; several with commas, or repeat the option.",
    ),
]
DrainRack = Annotated[
    list[str] | None, _topology_option(metavar="PATH", help="Every broker below this rack path, such as /eu/eu-1a.")
]
Filename = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        callback=once,
        help="KafkaTopics to plan for, as files or directories; - is standard input. Repeat it for several.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="REGEX", help="Only topics whose whole name matches this regular expression. Default: all."
    ),
]
ReplicationFactor = Annotated[
    list[str] | None,
    typer.Option(metavar="TOPIC=R", help="The replication factor that a topic is to have; repeat it for several."),
]
Rebalance = Annotated[
    bool,
    typer.Option("--rebalance", help="Move more replicas than compliance needs, until all brokers hold equally many."),
]
Output = Annotated[Format, output_option("--output", "-o", help="How to print the result.")]
ProgressOutput = Annotated[
    ProgressFormat, output_option("--output", "-o", help="The format of progress; json prints one object per line.")
]
Journal = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE",
        help="The journal of the plan being carried out. Default: a file per cluster below ~/.local/state.",
    ),
]
ShowAll = Annotated[bool, output_option("--all", help="Print all rows of a long table.")]

_EXIT_CODES = (
    "Exit codes: 0 fine, 1 not compliant (check), a severe finding (scan, status) or remote reads "
    "(locality --fail-above), 2 bad input or what cannot be done, "
    "3 Kafka or the API server did not answer or refused, 4 a plan is not carried out whole (apply, watch, drain), "
    "5 no plan moves what is left (drain), 70 a defect of rackspan, 71 a crash, 74 the result could not be written, "
    "130 Ctrl-C."
)


def epilog(*examples: str) -> str:
    """Return the text below a command's options: examples, one per paragraph, and the exit codes."""
    return "\n\n".join(["Examples:", *examples, _EXIT_CODES])
