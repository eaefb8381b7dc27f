"""The acts of the demo. Every command is shown as it is run, and every claim is checked against what came out."""

import json
import os
import shlex
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kubernetes import client

from dev.demo.bare_pods import BarePods
from dev.demo.describe import Replicas, configs_by_topic, replicas_by_topic
from dev.demo.moving import Moving
from dev.demo.picture import picture
from dev.demo.scanning import Scanning
from dev.demo.terminal import WIDTH, DemoError, Terminal
from dev.paths import REPOSITORY
from dev.stack import assets, named_stacks
from dev.stack.nodes import LEVELS, NINE_BROKERS, REGION_LABEL, ZONE_LABEL
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually
from rackspan.api.conditions import COMPLIANT, STALLED, ConditionStatus, find_condition
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.racktopology import RackTopology
from rackspan.api.reasons import Reason
from rackspan.core.compliance import Compliance, judge
from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree
from rackspan.reconcile.scans.manifests import SELECTOR

NAME = "demo"
_PLACED = ("orders", "payments", "sessions", "ledger")
_IN_SHOP = "-n shop"
_RESYNC_SECONDS = 3
_READY_MESSAGE = '{.status.conditions[?(@.type=="Ready")].message}'
_RACKSPAN = ".venv/bin/rackspan"
_CERTIFICATE = (
    "import json, sys; plan = json.load(sys.stdin); "
    'print(json.dumps({key: plan[key] for key in ("hash", "feasible", "moves", "lowerBound", "gap", "bytes")}))'
)
_SECONDS_TO_NOTICE = 10.0  # what the demo promises; about one is usual on an idle machine


def play(terminal: Terminal, directory: Path, processes: Processes, most: int | None) -> None:
    """Play all acts, or the first of them, on a stack that is started in `directory`.

    Raises DemoError where a claim does not hold.
    """
    for _ in islice(_acts(terminal, directory, processes), most):
        pass


def _acts(terminal: Terminal, directory: Path, processes: Processes) -> Iterator[None]:
    """Play an act at each step."""
    with terminal.act("A Kafka of nine brokers, a Kubernetes with their nodes, and the operator"):
        demo = _Demo(terminal, named_stacks.start(directory, processes, NINE_BROKERS))
        terminal.use({**os.environ, **_environment(demo.running)})
        _nodes(demo)
        port = _operator(demo, processes)
    yield
    with terminal.act("examples/ applied"):
        _apply(demo)
    yield
    with terminal.act("Where the replicas are"):
        placed = _placements(demo)
    yield
    with terminal.act("What cannot be"):
        _impossible(demo, placed)
    yield
    with terminal.act("A node turns out to stand elsewhere"):
        _relabel(demo, placed)
        _label_back(demo)
    yield
    with terminal.act("What draining a broker would cost"):
        _drain(demo)
    yield
    with terminal.act("A topic grows, and somebody changes its config behind the operator's back"):
        _grow_and_drift(demo, placed)
    yield
    scanned = terminal.act("A topic is broken behind everybody's back, and a scheduled scan finds it")
    with scanned, demo.running.control_plane.api_client() as api, _bare_pods(demo.running, api, processes):
        Scanning(terminal, demo.running, NAME, port, directory / "history").play()
    yield
    with terminal.act("Rack drained, factor raised, node relabelled: one plan, approved, carried out under load"):
        Moving(terminal, demo.running, NAME).play()
    yield


@dataclass(frozen=True, slots=True)
class _Demo:
    """The terminal, the stack, and what both Kubernetes and Kafka say about a topic."""

    terminal: Terminal
    running: named_stacks.Stack

    def kafka(self, *tool: str) -> str:
        """Run one of Kafka's own tools, shown."""
        return self.terminal.run(f"{named_stacks.COMMAND} kafka --name {NAME} -- {shlex.join(tool)}")

    def topic(self, name: str) -> KafkaTopic:
        return KafkaTopic.from_object(self.running.kubectl.in_namespace("shop").json("get", "kafkatopic", name))

    def topology(self) -> RackTopology:
        return RackTopology.from_object(self.running.kubectl.in_namespace("shop").json("get", "racktopology", "main"))

    def tree(self, topic: KafkaTopic) -> RackTree:
        """The rack tree of the brokers that the topic may use, from the RackTopology's status."""
        topology = self.topology()
        brokers = (Broker(b.id, parse_rack(b.rack) if b.rack else None) for b in topology.status.brokers)
        chosen = topic.spec.placement.brokers
        return RackTree(topology.spec.level_names, tuple(brokers)).selected(chosen.include, chosen.exclude)

    def draw(self, name: str, replicas: Replicas) -> Compliance:
        """Draw what Kafka holds of a topic, judged by the same rules as the operator's."""
        topic = self.topic(name)
        tree = self.tree(topic)
        verdict = judge(tree, replicas)
        findings = () if topic.spec.placement.assignment else verdict.findings
        self.terminal.say(f"{name}: {len(replicas)} partitions of {len(replicas[0])} replicas")
        width = WIDTH - 2
        self.terminal.draw(picture(tree, replicas, findings=findings, width=width, glyphs=self.terminal.glyphs))
        return verdict


# -- the acts ---------------------------------------------------------------------------------------------------------


def _nodes(demo: _Demo) -> None:
    terminal = demo.terminal
    terminal.say(
        "Two regions, five zones, seven racks, and uneven on purpose. In a shell of your own, this line makes all of "
        "the commands below work while the demo runs:"
    )
    terminal.show(f'eval "$({named_stacks.COMMAND} kubectl-env --name {NAME})"')
    terminal.run(f"kubectl get nodes -L {','.join(LEVELS.values())}")


def _operator(demo: _Demo, processes: Processes) -> int:
    """Start the operator, and give the port of its metrics."""
    terminal, running = demo.terminal, demo.running
    terminal.run("kubectl apply --server-side --filename crds/")
    terminal.run("kubectl wait crd --all --for=condition=Established --timeout=30s")
    terminal.run("kubectl create namespace rackspan && kubectl create namespace shop")
    terminal.say(
        "The chart's rights and ServiceAccount. Its Deployment is left out: these nodes run no containers, so the "
        "operator runs beside them, as a process with the rights of that ServiceAccount and no others."
    )
    terminal.run(
        f"{_short(_helm())} template rackspan charts/rackspan --namespace rackspan --set scan.enabled=true "
        "--show-only templates/rbac.yaml --show-only templates/serviceaccount.yaml --show-only templates/scan.yaml "
        "| kubectl apply --server-side --filename -"
    )
    kubeconfig = running.control_plane.cluster.kubeconfig_for_service_account(
        "rackspan", "rackspan", running.directory / "operator.kubeconfig"
    )
    (port,) = free_ports(1)
    program = Path(sys.executable).with_name("rackspan")
    command = [
        *(str(program), "operator", "--kubeconfig", str(kubeconfig), "--resync", str(_RESYNC_SECONDS)),
        *("--listen-host", "127.0.0.1", "--listen-port", str(port), "--log-format", "text"),
        *("--scan-image", "rackspan-scan", "--scan-namespace", "rackspan"),
        *("--scan-trusted-namespace", "shop"),
        *("--lease-namespace", "rackspan"),
    ]
    shown = [str(program.relative_to(REPOSITORY)) if program.is_relative_to(REPOSITORY) else str(program), *command[1:]]
    terminal.show(" ".join(_short(Path(part)) if part.startswith("/") else part for part in shown) + " &")
    processes.start("operator", command, cwd=REPOSITORY)

    def takes_part() -> bool:
        processes.check("operator")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)

    eventually(takes_part, "the operator to be ready", timeout=120, retry_on=(OSError, urllib.error.URLError))
    return port


def _bare_pods(running: named_stacks.Stack, api: client.ApiClient, processes: Processes) -> BarePods:
    """What runs the scans' pods, with the rights that the chart gives them."""
    kubeconfig = running.control_plane.cluster.kubeconfig_for_service_account(
        "rackspan", "rackspan-scan", running.directory / "scan.kubeconfig"
    )
    return BarePods(api, "rackspan", SELECTOR, kubeconfig, processes)


def _apply(demo: _Demo) -> None:
    terminal = demo.terminal
    terminal.say("The brokers' pods are in a namespace of their own, which consents to be read by topologies in shop:")
    terminal.run("kubectl label namespace kafka rackspan.dev/broker-pods-for=shop")
    terminal.run(f"kubectl apply {_IN_SHOP} --filename examples/")
    terminal.say(
        "The samples look for Kafka behind a Service, kafka-bootstrap.kafka:9092. These brokers listen on loopback, so "
        "the topology is told:"
    )
    bootstrap = ",".join(demo.running.kafka.bootstrap().split(",")[:3])
    patch = json.dumps({"spec": {"kafka": {"bootstrapServers": bootstrap}}})
    terminal.run(f"kubectl patch racktopology main {_IN_SHOP} --type merge --patch '{patch}'")
    terminal.run(f"kubectl wait racktopology/main {_IN_SHOP} --for=condition=Ready --timeout=180s")
    topics = " ".join(_PLACED)
    terminal.run(f"kubectl wait kafkatopic {topics} {_IN_SHOP} --for=condition=Ready --timeout=180s")
    terminal.run(f"kubectl wait kafkatopic archive {_IN_SHOP} --for=condition=Stalled --timeout=180s")
    terminal.run(f"kubectl get racktopologies,kafkatopics {_IN_SHOP}")


def _placements(demo: _Demo) -> dict[str, Replicas]:
    terminal = demo.terminal
    terminal.say("What Kafka itself says, by its own tool:")
    described = demo.kafka("TopicCommand", "--describe")
    placed, configs = dict(replicas_by_topic(described)), configs_by_topic(described)
    if missing := set(_PLACED) - set(placed):
        raise DemoError(f"Kafka does not have the topics {', '.join(sorted(missing))}")
    terminal.say("The same as pictures: " + terminal.glyphs.legend)

    fair = demo.draw("orders", placed["orders"])
    regions = _domains_of(demo, placed["orders"], depth=1)
    terminal.check(fair.compliant, "orders: spread as evenly as the brokers allow, at every level")
    terminal.check(all(len(each) == 2 for each in regions), "orders: no region holds all replicas of a partition")

    fair = demo.draw("payments", placed["payments"])
    zones = _domains_of(demo, placed["payments"], depth=2)
    terminal.check(
        fair.compliant and all(len(each) == 3 and {zone[0] for zone in each} == {"eu"} for each in zones),
        "payments: four replicas over all three zones of /eu, and none elsewhere",
    )
    terminal.check(
        configs["payments"].get("min.insync.replicas") == "3",
        "payments: min.insync.replicas 3 was derived, so that every acknowledged write is in two zones",
    )

    fair = demo.draw("sessions", placed["sessions"])
    leaders = _domains_of(demo, [row[:1] for row in placed["sessions"]], depth=1)
    terminal.check(fair.compliant, "sessions: spread as evenly as the brokers allow, at every level")
    terminal.check(all(each == {("us",)} for each in leaders), "sessions: every preferred leader is in /us")

    demo.draw("ledger", placed["ledger"])
    written = demo.topic("ledger").spec.placement.assignment
    terminal.check(placed["ledger"] == written, "ledger: every replica is where examples/ledger.yaml puts it")
    return placed


def _impossible(demo: _Demo, placed: dict[str, Replicas]) -> None:
    terminal = demo.terminal
    terminal.say("archive wants every write in three regions, and there are two. Its condition says what would help:")
    condition = '.status.conditions[?(@.type=="Stalled")]'
    terminal.run(
        f"kubectl get kafkatopic archive {_IN_SHOP} -o jsonpath='{{{condition}.reason}}: {{{condition}.message}}'"
    )
    stalled = find_condition(demo.topic("archive").status.conditions, STALLED)
    terminal.check(
        stalled is not None and stalled.reason == Reason.DURABILITY_UNSATISFIABLE and "archive" not in placed,
        "archive: refused with the smallest change that would help, and nothing was created",
    )


def _relabel(demo: _Demo, placed: dict[str, Replicas]) -> None:
    terminal = demo.terminal
    terminal.say(
        "node-3 was labelled eu/eu-1b by mistake: it stands in us/us-1a. Every partition of payments, which must stay "
        "in /eu, has a replica there."
    )
    terminal.run(f"kubectl label node node-3 --overwrite {REGION_LABEL}=us {ZONE_LABEL}=us-1a")
    since = time.monotonic()
    terminal.run(f"kubectl wait racktopology/main {_IN_SHOP} --for=condition=RacksInSync=False --timeout=180s")
    terminal.run(f"kubectl wait kafkatopic/payments {_IN_SHOP} --for=condition=Compliant=False --timeout=180s")
    seconds = time.monotonic() - since
    terminal.check(seconds < _SECONDS_TO_NOTICE, f"both noticed it {seconds:.1f} s after the label changed")
    eventually(lambda: _counted(demo), "the topology to count its topics", timeout=120)
    terminal.run(f"kubectl get racktopologies,kafkatopics {_IN_SHOP}")
    for kind, name, condition in (("racktopology", "main", "RacksInSync"), ("kafkatopic", "payments", "Compliant")):
        path = f'{{.status.conditions[?(@.type=="{condition}")].message}}'
        terminal.run(f"kubectl get {kind} {name} {_IN_SHOP} -o jsonpath='{path}'")
    terminal.say(
        "The samples in its status, five at most, and the picture of before with brokers where they stand now:"
    )
    fields = '{.partition}{"  "}{.level}{" "}{.domain}{"  "}{.reason}'
    terminal.run(
        f"kubectl get kafkatopic payments {_IN_SHOP} -o jsonpath="
        f"'{{range .status.compliance.samples[*]}}partition {fields}{{\"\\n\"}}{{end}}'"
    )
    verdict = demo.draw("payments", placed["payments"])
    told = demo.topic("payments").status.compliance
    terminal.check(
        told is not None and (told.non_compliant, told.moves) == (verdict.non_compliant, verdict.moves) == (4, 4),
        "payments: 4 of 4 partitions are not as asked, and 4 replicas would have to move",
    )
    terminal.say(
        "Plans wait until labels have stayed the same for 15 seconds, so one that flaps starts none. Then there is "
        "one that would mend it, with its certificate. Nothing is moved unasked:"
    )
    eventually(lambda: demo.topic("payments").status.plan is not None, "a plan for payments", timeout=120)
    terminal.run(f"kubectl get kafkatopic payments {_IN_SHOP} -o jsonpath='{_READY_MESSAGE}'")
    terminal.run(
        f"kubectl get kafkatopic payments {_IN_SHOP} -o jsonpath="
        f"'{{range .status.plan.samples[*]}}partition {{.partition}}: {{.from}} to {{.replicas}}{{\"\\n\"}}{{end}}'"
    )
    plan = demo.topic("payments").status.plan
    terminal.check(
        plan is not None and plan.moves == plan.lower_bound == verdict.moves,
        f"payments: its plan copies {verdict.moves} replicas, and no plan can copy fewer",
    )


def _label_back(demo: _Demo) -> None:
    terminal = demo.terminal
    terminal.say("The label was right after all:")
    terminal.run(f"kubectl label node node-3 --overwrite {REGION_LABEL}=eu {ZONE_LABEL}=eu-1b")
    terminal.run(f"kubectl wait kafkatopic {' '.join(_PLACED)} {_IN_SHOP} --for=condition=Compliant --timeout=180s")
    terminal.run(f"kubectl wait racktopology/main {_IN_SHOP} --for=condition=RacksInSync --timeout=180s")


def _drain(demo: _Demo) -> None:
    terminal = demo.terminal
    server = demo.running.kafka.bootstrap().split(",")[0]
    command = f"{_RACKSPAN} plan --bootstrap-server {server} --topic 'orders|sessions' --drain-broker 5"
    terminal.say("The command line needs no Kubernetes; any Kafka will do. As a person reads it, and for a pipeline:")
    terminal.run(f"{command} --levels {','.join(LEVELS)}")
    plan = json.loads(terminal.run(f"{command} -o json | python3 -c '{_CERTIFICATE}'"))
    terminal.check(
        plan["feasible"] and plan["moves"] == plan["lowerBound"] > 0 and plan["gap"] == 0,
        f"draining broker 5 copies {plan['moves']} replicas, and no plan can copy fewer",
    )


def _grow_and_drift(demo: _Demo, placed: dict[str, Replicas]) -> None:
    terminal = demo.terminal
    terminal.run(
        f"""kubectl patch kafkatopic orders {_IN_SHOP} --type merge --patch '{{"spec": {{"partitions": 9}}}}'"""
    )
    terminal.run(f"kubectl wait kafkatopic/orders {_IN_SHOP} --for=jsonpath='{{.status.partitions}}'=9 --timeout=180s")
    demo.kafka("kafka.admin.ConfigCommand", "--alter", "--topic", "orders", "--add-config", "retention.ms=1000")
    terminal.say(f"Whole clusters are compared every {_RESYNC_SECONDS} seconds here (a minute unless told otherwise).")
    selector = "--field-selector involvedObject.name=orders,reason=ConfigUpdated"
    events = shlex.split(f"get events {_IN_SHOP} {selector}")
    eventually(
        lambda: demo.running.kubectl.json(*events)["items"], "the config to be put back", timeout=120, interval=0.5
    )
    terminal.run(f"kubectl get events {_IN_SHOP} {selector}")
    described = demo.kafka("TopicCommand", "--describe")
    now, configs = replicas_by_topic(described), configs_by_topic(described)["orders"]
    fair = demo.draw("orders", now["orders"])
    terminal.check(
        fair.compliant and len(now["orders"]) == 9 and now["orders"][:6] == placed["orders"],
        "orders: three more partitions, as fair as the others, which are where they were",
    )
    terminal.check(
        all(now[name] == placed[name] for name in _PLACED if name != "orders"),
        "the others: not one replica has moved, whatever the label said",
    )
    wanted = demo.topic("orders").spec.config_values["retention.ms"]
    terminal.check(configs["retention.ms"] == wanted, f"orders: retention.ms is {wanted} again")


# -- helpers ----------------------------------------------------------------------------------------------------------


def _domains_of(demo: _Demo, replicas: Sequence[Sequence[int]], depth: int) -> list[set[tuple[str, ...]]]:
    """Per partition the domains, `depth` steps below the root, that hold a replica."""
    racks = {broker.id: parse_rack(broker.rack or "?") for broker in demo.topology().status.brokers}
    return [{racks[broker][:depth] for broker in row} for row in replicas]


def _counted(demo: _Demo) -> bool:
    """Whether the topology counts as many topics that are not compliant as say so themselves."""
    items = demo.running.kubectl.in_namespace("shop").json("get", "kafkatopics")["items"]
    broken = [topic for topic in map(KafkaTopic.from_object, items) if _says_broken(topic)]
    counts = demo.topology().status.topics
    return counts is not None and counts.non_compliant == len(broken)


def _says_broken(topic: KafkaTopic) -> bool:
    compliant = find_condition(topic.status.conditions, COMPLIANT)
    return compliant is not None and compliant.status == ConditionStatus.FALSE


def _environment(running: named_stacks.Stack) -> dict[str, str]:
    """What `python -m dev kubectl-env` sets."""
    path = os.pathsep.join([str(running.kubectl.binary.parent), os.environ.get("PATH", os.defpath)])
    return {**running.kubectl.environment(), "PATH": path}


def _helm() -> Path:
    """A helm: the machine's, else the one that tests use."""
    return Path(shutil.which("helm") or assets.find_helm() or assets.ensure_helm())


def _short(path: Path) -> str:
    """A path as a person would type it."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
