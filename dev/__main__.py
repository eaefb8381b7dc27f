"""python -m dev: the development stack from the command line."""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from dev import chromium, krew, release, spark_classes
from dev.gitops import own_network
from dev.pods import cluster, images, machine
from dev.progress import AssetError, need, say
from dev.stack import assets, kafka_archive, kafka_distribution, named_stacks, other_kafkas, plugins
from dev.stack.control_plane import components
from dev.stack.kafka_distribution import KafkaToolError
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import NINE_BROKERS, Site, sites
from dev.stack.processes import ProcessDiedError


def _assets(arguments: argparse.Namespace) -> None:
    kubernetes = assets.ensure_kubernetes(components(arguments.extra))
    distribution = kafka_distribution.ensure_distribution()
    kafka_archive.ensure_archive(distribution)
    kafka_distribution.ensure_client_jars()
    helm = assets.ensure_helm()
    promtool = assets.ensure_promtool()
    kstatus = assets.ensure_kstatus()
    versitygw = assets.ensure_versitygw()
    spark = spark_classes.ensure_class_archive()
    kafka = distribution.jars[0].parent
    programs = {
        "helm": helm,
        "promtool": promtool,
        "kstatus": kstatus,
        "versitygw": versitygw,
        "spark's classes": spark,
    }
    found = {**kubernetes, **programs, "kafka": kafka}
    try:
        found["plugins"] = plugins.ensure_plugins(distribution)
        found["other kafkas"] = other_kafkas.ensure_other_kafkas()
    except AssetError as error:  # without a JDK, all but the tests of plug-ins can be run
        say(str(error))
    try:
        found["chromium"] = chromium.ensure_chromium()
    except AssetError as error:  # everything but the tests of a page works without it
        say(str(error))
    for name, path in found.items():
        print(f"{name:26} {path}")


def _plugins(_: argparse.Namespace) -> None:
    print(plugins.ensure_plugins(kafka_distribution.ensure_distribution()))


def _release(arguments: argparse.Namespace) -> None:
    kafka = kafka_distribution.ensure_distribution()
    release.build(arguments.folder, assets.ensure_helm(), kafka, tag=arguments.tag)
    krew.build(arguments.folder)
    for path in sorted(arguments.folder.iterdir()):
        print(f"{path.stat().st_size:>10} {path}")


def _images(arguments: argparse.Namespace) -> None:
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for target, name in images.NAMES.items():
        path = arguments.folder / f"{name}-{release.version()}.oci.tar"
        shutil.copyfile(images.ensure_image(target, arguments.base).archive, path)
        print(f"{path.stat().st_size:>10} {path}")


def _pods(_: argparse.Namespace) -> None:
    if (reason := machine.why_no_pods()) is not None:
        say(f"no pods on this machine: {reason}")
        return
    assets.ensure_kubernetes(components(cluster.PROGRAMS))
    assets.ensure_coredns()
    machine.ensure_programs()
    kafka = kafka_distribution.ensure_distribution()
    built = (images.ensure_pause(), images.ensure_kafka(kafka.jars[0].parent))
    for image in (*built, *map(images.ensure_image, images.NAMES)):
        print(f"{image.reference:26} {image.archive}")


def _gitops(_: argparse.Namespace) -> None:
    need("git", "serve repositories")
    if subprocess.run(own_network.command([], ["true"]), check=False).returncode:
        raise AssetError("Argo CD's controller needs a network namespace of its own: see GitOps in CONTRIBUTING.md")
    for name, path in {**assets.ensure_flux(), **assets.ensure_argocd()}.items():
        print(f"{name:26} {path}")


def _up(arguments: argparse.Namespace) -> None:
    _print(named_stacks.up(arguments.name, arguments.racks, extra=arguments.extra))
    print(f'\nGo on by hand:  eval "$({named_stacks.COMMAND} kubectl-env --name {arguments.name})"; kubectl get nodes')


_STEPS = 3


def _sites(text: str) -> tuple[Site, ...]:
    paths = text.split(",")
    for path in paths:
        steps = path.removeprefix("/").split("/")
        if len(steps) != _STEPS or not all(re.fullmatch(r"[A-Za-z0-9][\w.-]*", step, re.ASCII) for step in steps):
            raise argparse.ArgumentTypeError(f"{path!r} is no rack of three levels, such as /eu/eu-1a/r1")
    return sites(*paths)


def _down(arguments: argparse.Namespace) -> None:
    for name in named_stacks.names() if arguments.all else [arguments.name]:
        say(f"stack {name!r} is gone" if named_stacks.down(name) else f"there was no stack {name!r}")


def _status(arguments: argparse.Namespace) -> None:
    _print(named_stacks.attach(arguments.name))


def _kubectl_env(arguments: argparse.Namespace) -> None:
    running = named_stacks.attach(arguments.name)
    print(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig))}")
    print(f'export PATH={shlex.quote(str(running.kubectl.binary.parent))}:"$PATH"')


def _kafka(arguments: argparse.Namespace) -> None:
    print(named_stacks.attach(arguments.name).kafka.tool(*arguments.tool), end="")


def _print(running: named_stacks.Stack) -> None:
    print(f"kubeconfig  {running.kubeconfig}")
    print(f"bootstrap   {running.kafka.bootstrap()}")
    print(f"cluster id  {running.kafka.cluster_id}")
    print(f"logs        {running.processes.directory / 'logs'}")
    for broker, rack in running.kafka.racks.items():
        print(f"broker {broker:<4} {rack or '(no rack)'}")
    for name, pid in sorted(running.processes.pids().items()):
        print(f"process     {name} ({pid})")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    build = command("assets", _assets, "download and build everything that the stack runs")
    command("plugins", _plugins, "compile the plug-ins for brokers, and say where their jar is")
    artefacts = command("release", _release, "build the artefacts of a release, the same bytes each time")
    artefacts.add_argument("folder", type=Path, help="where they go: empty, or absent")
    artefacts.add_argument("--tag", default="", help="of the release: refused unless it is v and the version")
    containers = command("images", _images, "build the images of a release with buildah, in the OCI layout")
    containers.add_argument("folder", type=Path, help="where their archives go")
    containers.add_argument("--base", default="", help="base image of a registry (default: Debian by debootstrap)")
    command("pods", _pods, "get what runs pods, and build the images, where this machine can do that")
    command("gitops", _gitops, "build the controllers that `make gitops` runs")
    start = command("up", _up, "start the stack, or find the one that runs, and leave it running")
    start.add_argument(
        "--racks",
        type=_sites,
        default=NINE_BROKERS,
        metavar="PATH,...",
        help="rack of each broker, as /region/zone/rack; nine uneven ones by default",
    )
    for sub in (build, start):
        sub.add_argument(
            "--with",
            dest="extra",
            type=lambda text: [name for name in text.split(",") if name],
            default=[],
            metavar="NAME,...",
            help="further Kubernetes programs: scheduler (up starts it), kubelet, proxy (only built)",
        )
    end = command("down", _down, "end the stack and delete its state")
    end.add_argument("--all", action="store_true", help="every stack, whatever its name")
    status = command("status", _status, "say what runs, and where")
    env = command("kubectl-env", _kubectl_env, "print shell code that points kubectl at the stack")
    kafka = command("kafka", _kafka, "run one of Kafka's tools: kafka -- TopicCommand --describe")
    for sub in (start, end, status, env, kafka):
        sub.add_argument("--name", default=named_stacks.DEFAULT_NAME, help="which stack (default: %(default)s)")
    kafka.add_argument("tool", nargs="+", metavar="CLASS [ARGUMENT ...]")
    return parser


def main() -> int:
    """Run one command; what went wrong is a sentence on standard error, not a traceback."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except (AssetError, named_stacks.StackError, ProcessDiedError, KafkaToolError, KubectlError, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
