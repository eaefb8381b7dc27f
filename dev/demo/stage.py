"""The common part of all acts of the demo: the terminal, the stack, and its state in Kubernetes and Kafka."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

from dev.demo.describe import Replicas
from dev.demo.picture import picture
from dev.demo.terminal import WIDTH, Terminal
from dev.stack import named_stacks
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.racktopology import RackTopology
from rackspan.core.compliance import Compliance, judge
from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree

NAME = "demo"
_SHOP = "shop"
IN_SHOP = f"-n {_SHOP}"
PLACED = ("orders", "payments", "sessions", "ledger")
"""The topics of examples/ whose requirements can be met."""
RACKSPAN = ".venv/bin/rackspan"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@dataclass(frozen=True, slots=True)
class Stage:
    """The terminal and the stack. Changes are shown as commands, queries are not."""

    terminal: Terminal
    running: named_stacks.Stack

    def kafka(self, *tool: str, through: str = "") -> str:
        """Show and run a Kafka tool. Its output is piped `through` another command if given."""
        pipe = f" | {through}" if through else ""
        return self.terminal.run(f"{named_stacks.COMMAND} kafka --name {NAME} -- {shlex.join(tool)}{pipe}")

    def patch(self, what: str, spec: dict[str, Any]) -> None:
        """Show and run a patch of the spec of an object."""
        patch = json.dumps({"spec": spec})
        self.terminal.run(f"kubectl patch {what} {IN_SHOP} --type merge --patch '{patch}'")

    def get(self, *what: str) -> Any:
        """Return an object of the namespace, or a list of objects."""
        return self.running.kubectl.in_namespace(_SHOP).json("get", *what)

    def topic(self, name: str) -> KafkaTopic:
        return KafkaTopic.from_object(self.get("kafkatopic", name))

    def topology(self) -> RackTopology:
        return RackTopology.from_object(self.get("racktopology", "main"))

    def tree(self, topic: KafkaTopic) -> RackTree:
        """Return the rack tree of the brokers that a topic may use, from the status of the RackTopology."""
        topology = self.topology()
        brokers = (Broker(b.id, parse_rack(b.rack) if b.rack else None) for b in topology.status.brokers)
        chosen = topic.spec.placement.brokers
        return RackTree(topology.spec.level_names, tuple(brokers)).selected(chosen.include, chosen.exclude)

    def draw(self, name: str, replicas: Replicas) -> Compliance:
        """Draw the replicas of a topic in Kafka, judged by the rules of the operator."""
        topic = self.topic(name)
        tree = self.tree(topic)
        assessment = judge(tree, replicas)
        findings = () if topic.spec.placement.assignment else assessment.findings
        self.terminal.say(f"{name}: {len(replicas)} partitions of {len(replicas[0])} replicas")
        width = WIDTH - 2
        self.terminal.draw(picture(tree, replicas, findings=findings, width=width, glyphs=self.terminal.glyphs))
        return assessment
