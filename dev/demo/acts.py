"""The acts of the demo. Every command is shown as it runs, and every claim is checked."""

import json
import os
import shlex
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from kubernetes import client

from dev.demo.bare_pods import BarePods
from dev.demo.describe import Replicas, configs_by_topic, replicas_by_topic
from dev.demo.moving import Moving
from dev.demo.racks import PublishedRacks, ReadingNear
from dev.demo.scanning import Scanning
from dev.demo.stage import IN_SHOP, NAME, PLACED, RACKSPAN, Stage
from dev.demo.terminal import DemoError, Terminal
from dev.paths import REPOSITORY
from dev.spark_classes import ensure_class_archive
from dev.stack import assets, named_stacks
from dev.stack.control_plane import ControlPlane
from dev.stack.kafka_distribution import ensure_distribution
from dev.stack.named_stacks import BROKER_NAMESPACE
from dev.stack.nodes import LEVELS, NINE_BROKERS, REGION_LABEL, ZONE_LABEL
from dev.stack.plugins import ensure_plugins, has_compiler
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually
from rackspan.api.conditions import COMPLIANT, STALLED, ConditionStatus, find_condition
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import parse_rack
from rackspan.reconcile.scans.scan_manifests import SELECTOR

_RESYNC_SECONDS = 3
_READY_MESSAGE = '{.status.conditions[?(@.type=="Ready")].message}'
_CERTIFICATE = (
    "import json, sys; plan = json.load(sys.stdin); "
    'print(json.dumps({key: plan[key] for key in ("hash", "feasible", "moves", "lowerBound", "gap", "bytes")}))'
)
_SECONDS_TO_NOTICE = 10.0  # the promise of the demo; about one second on an idle machine


def play(terminal: Terminal, directory: Path, processes: Processes, most: int | None) -> None:
    """Play all acts, or the first `most`, on a stack that is started in `directory`.

    Raises DemoError if a claim does not hold.
    """
    for _ in islice(_acts(terminal, directory, processes), most):
        pass


def _acts(terminal: Terminal, directory: Path, processes: Processes) -> Iterator[None]:
    """Play one act per iteration."""
    racks, plugins, (port,) = PublishedRacks(directory / "racks" / "nodes"), _plugins(), free_ports(1)
    ensure_class_archive()  # the image of the scan has it

    def meanwhile(plane: ControlPlane) -> None:
        terminal.use({**os.environ, **_environment(plane)})
        _nodes(terminal)
        _operator(terminal, plane, processes, port)
        racks.publish(terminal)

    with terminal.act(
        "A Kubernetes cluster of nine nodes, the operator, and a Kafka cluster with the racks of the nodes"
    ):
        stage = Stage(
            terminal,
            named_stacks.start(
                *(directory, processes, NINE_BROKERS), rack_of=racks.command, plugins=plugins, meanwhile=meanwhile
            ),
        )
        racks.taken(stage)
    yield
    with terminal.act("examples/ applied"):
        _apply(stage)
    yield
    with terminal.act("Where the replicas are"):
        placed = _placements(stage)
    yield
    with terminal.act("A topic that cannot be placed"):
        _impossible(stage, placed)
    yield
    with terminal.act("A node is relabelled"):
        _relabel(stage, placed)
        _label_back(stage)
    yield
    with terminal.act("A plan that drains a broker"):
        _drain(stage)
    yield
    with terminal.act("A topic gets partitions, and another client changes its config"):
        _grow_and_drift(stage, placed)
    yield
    scanned = terminal.act("Another client moves a partition, and a scan finds the violation")
    with scanned, stage.running.control_plane.api_client() as api, _bare_pods(stage.running, api, processes):
        Scanning(stage, port, directory / "history").play()
    yield
    with terminal.act("One plan drains a rack, raises a replication factor and follows a label, with traffic"):
        Moving(stage).play()
    yield
    with terminal.act("A broker gets the new rack of its node, and a consumer reads from the nearest broker"):
        ReadingNear(stage, racks, plugins).play()
    yield


# -- the acts ---------------------------------------------------------------------------------------------------------


def _nodes(terminal: Terminal) -> None:
    terminal.say(
        "There are two regions, five zones and seven racks, uneven on purpose. With this line in your own shell, all "
        "commands below work while the demo runs:"
    )
    terminal.show(f'eval "$({named_stacks.COMMAND} kubectl-env --name {NAME})"')
    terminal.run(f"kubectl get nodes -L {','.join(LEVELS.values())}")


def _operator(terminal: Terminal, plane: ControlPlane, processes: Processes, port: int) -> None:
    """Start the operator, with its metrics on `port`."""
    terminal.run("kubectl apply --server-side --filename crds/")
    plane.kubectl.wait_until_served()
    terminal.run("kubectl get crd")
    terminal.run("kubectl create namespace rackspan && kubectl create namespace shop")
    terminal.say(
        "The permissions and the ServiceAccount of the chart, without its Deployment: these nodes run no containers. "
        "So the operator runs as a process, with only the permissions of this ServiceAccount."
    )
    terminal.run(
        f"{_short(_helm())} template rackspan charts/rackspan --namespace rackspan "
        f"--kube-version {assets.kubernetes_version()} --set scan.enabled=true "
        f"--set racks.namespaces={{{BROKER_NAMESPACE}}} "
        "--show-only templates/rbac.yaml --show-only templates/serviceaccount.yaml --show-only templates/scan.yaml "
        "| kubectl apply --server-side --filename -"
    )
    kubeconfig = plane.cluster.kubeconfig_for_service_account(
        "rackspan", "rackspan", processes.directory / "operator.kubeconfig"
    )
    program = Path(sys.executable).with_name("rackspan")
    command = [
        *(str(program), "operator", "--kubeconfig", str(kubeconfig), "--resync", str(_RESYNC_SECONDS)),
        *("--listen-host", "127.0.0.1", "--listen-port", str(port), "--log-format", "text"),
        *("--scan-image", "rackspan-scan", "--scan-namespace", "rackspan"),
        *("--scan-trusted-namespace", "shop"),
        *("--lease-namespace", "rackspan", "--publish-racks-to", BROKER_NAMESPACE),
    ]
    shown = [str(program.relative_to(REPOSITORY)) if program.is_relative_to(REPOSITORY) else str(program), *command[1:]]
    terminal.show(" ".join(_short(Path(part)) if part.startswith("/") else part for part in shown) + " &")
    processes.start("operator", command, cwd=REPOSITORY)

    def takes_part() -> bool:
        processes.check("operator")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)

    eventually(takes_part, "the operator to be ready", retry_on=(OSError, urllib.error.URLError))


def _bare_pods(running: named_stacks.Stack, api: client.ApiClient, processes: Processes) -> BarePods:
    """Return a runner for the pods of scans, with their rights from the chart."""
    kubeconfig = running.control_plane.cluster.kubeconfig_for_service_account(
        "rackspan", "rackspan-scan", running.directory / "scan.kubeconfig"
    )
    return BarePods(api, "rackspan", SELECTOR, kubeconfig, processes)


def _apply(stage: Stage) -> None:
    terminal = stage.terminal
    terminal.run(f"kubectl apply {IN_SHOP} --filename examples/")
    terminal.say(
        "The samples expect Kafka at the Service kafka-bootstrap.kafka:9092. These brokers listen on loopback, so the "
        "topology needs another address:"
    )
    bootstrap = ",".join(stage.running.kafka.bootstrap().split(",")[:3])
    stage.patch("racktopology main", {"kafka": {"bootstrapServers": bootstrap}})
    terminal.run(f"kubectl wait racktopology/main {IN_SHOP} --for=condition=Ready --timeout=300s")
    topics = " ".join(PLACED)
    terminal.run(f"kubectl wait kafkatopic {topics} {IN_SHOP} --for=condition=Ready --timeout=300s")
    terminal.run(f"kubectl wait kafkatopic archive {IN_SHOP} --for=condition=Stalled --timeout=300s")
    terminal.run(f"kubectl get racktopologies,kafkatopics {IN_SHOP}")


def _placements(stage: Stage) -> dict[str, Replicas]:
    terminal = stage.terminal
    terminal.say("The output of Kafka's own tool:")
    described = stage.kafka("TopicCommand", "--describe")
    placed, configs = dict(replicas_by_topic(described)), configs_by_topic(described)
    if missing := set(PLACED) - set(placed):
        raise DemoError(f"Kafka does not have the topics {', '.join(sorted(missing))}")
    terminal.say("The same as pictures: " + terminal.glyphs.legend)

    fair = stage.draw("orders", placed["orders"])
    regions = _domains_of(stage, placed["orders"], depth=1)
    terminal.check(fair.compliant, "orders: spread as evenly as the brokers allow, at every level")
    terminal.check(all(len(each) == 2 for each in regions), "orders: no region holds all replicas of a partition")

    fair = stage.draw("payments", placed["payments"])
    zones = _domains_of(stage, placed["payments"], depth=2)
    terminal.check(
        fair.compliant and all(len(each) == 3 and {zone[0] for zone in each} == {"eu"} for each in zones),
        "payments: four replicas over all three zones of /eu, and none elsewhere",
    )
    terminal.check(
        configs["payments"].get("min.insync.replicas") == "3",
        "payments: min.insync.replicas 3 was derived, so that every acknowledged write is in two zones",
    )

    fair = stage.draw("sessions", placed["sessions"])
    leaders = _domains_of(stage, [row[:1] for row in placed["sessions"]], depth=1)
    terminal.check(fair.compliant, "sessions: spread as evenly as the brokers allow, at every level")
    terminal.check(all(each == {("us",)} for each in leaders), "sessions: every preferred leader is in /us")

    stage.draw("ledger", placed["ledger"])
    written = stage.topic("ledger").spec.placement.assignment
    terminal.check(placed["ledger"] == written, "ledger: every replica is where examples/ledger.yaml puts it")
    return placed


def _impossible(stage: Stage, placed: dict[str, Replicas]) -> None:
    terminal = stage.terminal
    terminal.say("archive requires every write in three regions, and there are two. Its condition has the remedy:")
    condition = '.status.conditions[?(@.type=="Stalled")]'
    terminal.run(
        f"kubectl get kafkatopic archive {IN_SHOP} -o jsonpath='{{{condition}.reason}}: {{{condition}.message}}'"
    )
    stalled = find_condition(stage.topic("archive").status.conditions, STALLED)
    terminal.check(
        stalled is not None and stalled.reason == Reason.DURABILITY_UNSATISFIABLE and "archive" not in placed,
        "archive: rejected with the smallest change that is required, and not created",
    )


def _relabel(stage: Stage, placed: dict[str, Replicas]) -> None:
    terminal = stage.terminal
    terminal.say(
        "The label eu/eu-1b of node-3 is wrong: the node is in us/us-1a. Every partition of payments, which must stay "
        "in /eu, has a replica there."
    )
    terminal.run(f"kubectl label node node-3 --overwrite {REGION_LABEL}=us {ZONE_LABEL}=us-1a")
    since = time.monotonic()
    terminal.run(f"kubectl wait racktopology/main {IN_SHOP} --for=condition=RacksInSync=False --timeout=300s")
    terminal.run(f"kubectl wait kafkatopic/payments {IN_SHOP} --for=condition=Compliant=False --timeout=300s")
    seconds = time.monotonic() - since
    terminal.check(seconds < _SECONDS_TO_NOTICE, f"both conditions changed {seconds:.1f} s after the label")
    eventually(lambda: _counted(stage), "the topology to count its topics")
    terminal.run(f"kubectl get racktopologies,kafkatopics {IN_SHOP}")
    for kind, name, condition in (("racktopology", "main", "RacksInSync"), ("kafkatopic", "payments", "Compliant")):
        path = f'{{.status.conditions[?(@.type=="{condition}")].message}}'
        terminal.run(f"kubectl get {kind} {name} {IN_SHOP} -o jsonpath='{path}'")
    terminal.say("The samples in its status (at most five), and the picture with the current racks of the brokers:")
    fields = '{.partition}{"  "}{.level}{" "}{.domain}{"  "}{.reason}'
    terminal.run(
        f"kubectl get kafkatopic payments {IN_SHOP} -o jsonpath="
        f"'{{range .status.compliance.samples[*]}}partition {fields}{{\"\\n\"}}{{end}}'"
    )
    assessment = stage.draw("payments", placed["payments"])
    told = stage.topic("payments").status.compliance
    terminal.check(
        told is not None and (told.non_compliant, told.moves) == (assessment.non_compliant, assessment.moves) == (4, 4),
        "payments: 4 of 4 partitions are non-compliant, and 4 replicas would have to move",
    )
    terminal.say(
        "The operator makes a plan after the labels have not changed for 15 seconds, so a flapping label starts none. "
        "The plan has a certificate, and needs an approval:"
    )
    eventually(lambda: stage.topic("payments").status.plan is not None, "a plan for payments")
    terminal.run(f"kubectl get kafkatopic payments {IN_SHOP} -o jsonpath='{_READY_MESSAGE}'")
    terminal.run(
        f"kubectl get kafkatopic payments {IN_SHOP} -o jsonpath="
        f"'{{range .status.plan.samples[*]}}partition {{.partition}}: {{.from}} to {{.replicas}}{{\"\\n\"}}{{end}}'"
    )
    plan = stage.topic("payments").status.plan
    terminal.check(
        plan is not None and plan.moves == plan.lower_bound == assessment.moves,
        f"payments: its plan copies {assessment.moves} replicas, and no plan can copy fewer",
    )


def _label_back(stage: Stage) -> None:
    terminal = stage.terminal
    terminal.say("The old label was correct, so it is restored:")
    terminal.run(f"kubectl label node node-3 --overwrite {REGION_LABEL}=eu {ZONE_LABEL}=eu-1b")
    terminal.run(f"kubectl wait kafkatopic {' '.join(PLACED)} {IN_SHOP} --for=condition=Compliant --timeout=300s")
    terminal.run(f"kubectl wait racktopology/main {IN_SHOP} --for=condition=RacksInSync --timeout=300s")


def _drain(stage: Stage) -> None:
    terminal = stage.terminal
    server = stage.running.kafka.bootstrap().split(",")[0]
    command = f"{RACKSPAN} plan --bootstrap-server {server} --topic 'orders|sessions' --drain-broker 5"
    terminal.say("The command line only needs Kafka, not Kubernetes. It prints text for users, and JSON for scripts:")
    terminal.run(f"{command} --levels {','.join(LEVELS)}")
    plan = json.loads(terminal.run(f"{command} -o json | python3 -c '{_CERTIFICATE}'"))
    terminal.check(
        plan["feasible"] and plan["moves"] == plan["lowerBound"] > 0 and plan["gap"] == 0,
        f"draining broker 5 copies {plan['moves']} replicas, and no plan can copy fewer",
    )


def _grow_and_drift(stage: Stage, placed: dict[str, Replicas]) -> None:
    terminal = stage.terminal
    stage.patch("kafkatopic orders", {"partitions": 9})
    terminal.run(f"kubectl wait kafkatopic/orders {IN_SHOP} --for=jsonpath='{{.status.partitions}}'=9 --timeout=300s")
    stage.kafka("ConfigCommand", "--alter", "--topic", "orders", "--add-config", "retention.ms=1000")
    terminal.say(f"Whole clusters are compared every {_RESYNC_SECONDS} seconds here (by default every minute).")
    selector = "--field-selector involvedObject.name=orders,reason=ConfigUpdated"
    events = shlex.split(f"get events {IN_SHOP} {selector}")
    eventually(lambda: stage.running.kubectl.json(*events)["items"], "the config to be restored", interval=0.5)
    terminal.run(f"kubectl get events {IN_SHOP} {selector}")
    described = stage.kafka("TopicCommand", "--describe")
    now, configs = replicas_by_topic(described), configs_by_topic(described)["orders"]
    fair = stage.draw("orders", now["orders"])
    terminal.check(
        fair.compliant and len(now["orders"]) == 9 and now["orders"][:6] == placed["orders"],
        "orders: three new partitions are spread evenly, and the others have not moved",
    )
    terminal.check(
        all(now[name] == placed[name] for name in PLACED if name != "orders"),
        "the other topics: no replica has moved",
    )
    wanted = stage.topic("orders").spec.config_values["retention.ms"]
    terminal.check(configs["retention.ms"] == wanted, f"orders: retention.ms is {wanted} again")


# -- helpers ----------------------------------------------------------------------------------------------------------


def _domains_of(stage: Stage, replicas: Sequence[Sequence[int]], depth: int) -> list[set[tuple[str, ...]]]:
    """Return for each partition the domains with a replica, `depth` steps below the root."""
    racks = {broker.id: parse_rack(broker.rack or "?") for broker in stage.topology().status.brokers}
    return [{racks[broker][:depth] for broker in row} for row in replicas]


def _counted(stage: Stage) -> bool:
    """Return whether the count of non-compliant topics in the topology matches the conditions of the topics."""
    items = stage.get("kafkatopics")["items"]
    broken = [topic for topic in map(KafkaTopic.from_object, items) if _says_broken(topic)]
    counts = stage.topology().status.topics
    return counts is not None and counts.non_compliant == len(broken)


def _says_broken(topic: KafkaTopic) -> bool:
    compliant = find_condition(topic.status.conditions, COMPLIANT)
    return compliant is not None and compliant.status == ConditionStatus.FALSE


def _environment(plane: ControlPlane) -> dict[str, str]:
    """Return the environment that `python -m dev kubectl-env` sets."""
    path = os.pathsep.join([str(plane.kubectl.binary.parent), os.environ.get("PATH", os.defpath)])
    return {**plane.kubectl.environment(), "PATH": path}


def _plugins() -> tuple[Path, ...]:
    """Return the jar of the plug-ins for brokers. Empty if this machine cannot compile it."""
    assets.ensure_kubernetes()  # first, because it takes longest and fails most often
    distribution = ensure_distribution()
    return (ensure_plugins(distribution),) if has_compiler(distribution) else ()


def _helm() -> Path:
    """Return the helm of the machine, else that of the tests."""
    return Path(shutil.which("helm") or assets.find_helm() or assets.ensure_helm())


def _short(path: Path) -> str:
    """Return a path as a user would type it."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
