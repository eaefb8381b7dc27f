"""The act about moves: one plan that drains a rack, raises a replication factor and follows a new label, under load."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from dev.demo.describe import replicas_by_topic
from dev.demo.stage import IN_SHOP, PLACED, REASSIGN, Stage
from dev.demo.terminal import DemoError
from dev.stack.nodes import REGION_LABEL, ZONE_LABEL
from dev.traffic import Traffic, TrafficError
from dev.waiting import eventually
from rackspan.api.conditions import READY, ConditionStatus, find_condition
from rackspan.api.reassignment import Reassignment, ReassignmentState

_RACK, _BROKER, _SPARE = "/us/us-1a/r2", 7, 6
_CONFIGS = "ConfigCommand"
_PARTITIONS = 9
_MESSAGES, _MESSAGE = 100, 50_000
"""For each partition of orders, and bytes of each."""
_THROTTLE = 1_000_000
_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Moving:
    """The act, with its stage."""

    stage: Stage

    def play(self) -> None:
        """Play the act. Raise DemoError if a claim does not hold."""
        config = {**self.stage.running.kafka.client_config(), "log_level": "0"}
        self._fill(config)
        try:
            with Traffic(config, "orders", _PARTITIONS) as traffic:
                self._ask()
                self._approve(self._planned())
                self._moved(self._carried_out())
            read = traffic.check()
        except TrafficError as error:
            raise DemoError(str(error)) from error
        self.stage.terminal.check(read > 0, f"orders: all {read} acknowledged messages can be read")

    def _fill(self, config: dict[str, str]) -> None:
        self.stage.terminal.say(
            f"Every partition of orders is filled with {_MESSAGES * _MESSAGE // 1_000_000} MB. From now on, a producer "
            "writes to it with acks=all. A consumer reads all acknowledged messages at the end."
        )
        producer = Producer({**config, "acks": "all"})
        for number in range(_MESSAGES * _PARTITIONS):
            producer.produce("orders", secrets.token_bytes(_MESSAGE), partition=number % _PARTITIONS)
            producer.poll(0)
        if producer.flush(_SECONDS):
            raise DemoError("orders could not be filled")

    def _ask(self) -> None:
        terminal = self.stage.terminal
        terminal.say(
            f"Four changes at once: the rack {_RACK} is drained, sessions gets a fourth replica, the explicit "
            f"assignment of ledger no longer uses broker {_BROKER}, and node-3 gets the label us/us-1a:"
        )
        limits = {"throttle": _THROTTLE}
        self.stage.patch("racktopology main", {"drainRacks": [_RACK], "reassignment": limits})
        self.stage.patch("kafkatopic sessions", {"replicationFactor": 4})
        rows = [[_SPARE if broker == _BROKER else broker for broker in row] for row in self._assignment()]
        self.stage.patch("kafkatopic ledger", {"placement": {"assignment": rows}})
        terminal.run(f"kubectl label node node-3 --overwrite {REGION_LABEL}=us {ZONE_LABEL}=us-1a")

    def _planned(self) -> str:
        """Wait for the plan for all changes and return its hash."""
        terminal = self.stage.terminal
        self._until(
            lambda: all(self.stage.topic(name).status.plan is not None for name in PLACED), "every topic to have a plan"
        )
        self._until(self._plans_all, "one plan for all of them")
        terminal.say("One plan for all changes, with its certificate. It needs an approval:")
        told = '{.status.conditions[?(@.type=="Reassigned")].message}'
        terminal.run(f"kubectl get racktopology main {IN_SHOP} -o jsonpath='{told}'")
        plan = self.stage.topology().status.plan
        if plan is None:
            raise DemoError("the topology has no plan any more")
        terminal.check(
            plan.moves == plan.lower_bound > 0,
            f"it copies {plan.moves} replicas of {plan.topics} topics, and no plan can copy fewer",
        )
        return plan.hash

    def _approve(self, plan: str) -> None:
        self.stage.terminal.run(f"kubectl annotate racktopology main {IN_SHOP} rackspan.dev/approve-plan={plan}")
        self._until(self._reassignments, "the plan to begin")
        self.stage.terminal.run(f"kubectl get reassignments {IN_SHOP}")

    def _carried_out(self) -> Reassignment:
        """Draw a progress bar until the Reassignment has ended, and show its throttles. Return it."""
        terminal, shown, throttled = self.stage.terminal, "", False
        deadline = time.monotonic() + _SECONDS
        while True:
            (now,) = self._reassignments()
            status = now.status
            if status.state is not None and status.state.ended:
                break
            if status.progress and status.moves:
                text = f"{status.progress.bytes} {status.progress.rate or ''}".strip()
                if text != shown:
                    terminal.bar(status.moved or 0, status.moves, text)
                shown = text
            if status.throttles and not throttled:  # recorded before they are set
                throttled = (
                    eventually(self._throttled_or_ended, "throttles", timeout=_SECONDS, interval=0.2) == "throttled"
                )
            if time.monotonic() > deadline:
                raise DemoError(f"the plan was not completed within {_SECONDS} seconds: {status.message}")
            self._until(partial(self._goes_on, now), "progress")
        terminal.check(throttled, "the brokers of the plan were throttled")
        return now

    def _moved(self, ended: Reassignment) -> None:
        terminal = self.stage.terminal
        terminal.run(f"kubectl get reassignments {IN_SHOP}")
        terminal.check(ended.status.state is ReassignmentState.SUCCEEDED, f"completed: {ended.status.message}")
        self._until(lambda: all(map(self._is_ready, PLACED)), "every topic to be Ready")
        terminal.run(f"kubectl get racktopologies,kafkatopics {IN_SHOP}")
        terminal.check("throttled" not in self._throttles(), "no throttle is left on any broker")
        listed = self.stage.kafka(REASSIGN, "--list")
        terminal.check("No partition reassignments found" in listed, "Kafka's own tool finds no reassignment")
        described = replicas_by_topic(self.stage.kafka("TopicCommand", "--describe"))
        left = [name for name in PLACED if any(_BROKER in row for row in described[name])]
        terminal.check(not left, f"broker {_BROKER}, the only one of {_RACK}, has no replica of these topics")
        terminal.check(self.stage.topology().status.plan is None, "no plan is left")

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _plans_all(self) -> bool:
        plan = self.stage.topology().status.plan
        return plan is not None and plan.topics == len(PLACED)

    def _throttled_or_ended(self) -> str | None:
        """Return which came first, without Kafka's tools, which take seconds to start."""
        kafka, admin = self.stage.running.kafka, self.stage.running.kafka.admin()
        brokers = [ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in kafka.racks]
        asked = [admin.describe_configs([broker])[broker] for broker in brokers]  # a call takes one broker
        found = (answer.result(300) for answer in asked)
        if any(
            name.endswith("replication.throttled.rate") and one.value
            for configs in found
            for name, one in configs.items()
        ):
            return "throttled"
        (now,) = self._reassignments()
        return "ended" if now.status.state is not None and now.status.state.ended else None

    def _throttles(self) -> str:
        return self.stage.kafka(_CONFIGS, "--describe", "--entity-type", "brokers", through="cut -c -72")

    def _assignment(self) -> tuple[tuple[int, ...], ...]:
        return self.stage.topic("ledger").spec.placement.assignment or ()

    def _is_ready(self, name: str) -> bool:
        topic = self.stage.topic(name)
        ready = find_condition(topic.status.conditions, READY)
        current = topic.status.observed_generation == topic.meta.generation
        return current and ready is not None and ready.status == ConditionStatus.TRUE

    def _reassignments(self) -> list[Reassignment]:
        items = self.stage.get("reassignments")["items"]
        return [Reassignment.from_object(item) for item in items]

    def _goes_on(self, seen: Reassignment) -> bool:
        return self._reassignments() != [seen]

    def _until(self, condition: Callable[[], object], what: str) -> None:
        eventually(condition, what, timeout=_SECONDS, interval=0.5)
