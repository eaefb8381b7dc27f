"""`rackspan apply` in a fault run: its processes and wishes, and the checks after each of them."""

import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dev.faults.cluster import Cluster, FaultError
from dev.faults.kills import Fate
from dev.faults.lives import Life, Lives
from dev.stack.kafka_cluster import KafkaCluster
from dev.waiting import eventually

_LIVES = Fate()


class Bench(Cluster):
    """The command for one topic of a cluster, and the checks after each trial."""

    def __init__(self, kafka: KafkaCluster, topic: str, directory: Path) -> None:
        super().__init__(kafka)
        self.topic = topic
        self.journal = directory / "journal.json"
        self._manifest = directory / "topic.json"
        self.kills: Counter[str] = Counter()
        self.lives = Lives(directory / "apply")

    def start(self, *arguments: str, fate: Fate = _LIVES) -> Life:
        """Start `rackspan apply` with the journal of this bench."""
        cluster = ("--bootstrap-server", self.kafka.bootstrap(), "--journal", str(self.journal))
        return self.lives.start(["apply", *cluster, *arguments], fate)

    def run(self, *arguments: str, fate: Fate = _LIVES) -> tuple[int, str]:
        """Run a process to the end of its fate. Return its exit code and output. Count it if it was killed."""
        life = self.start(*arguments, fate=fate)
        if fate.seconds is not None:
            time.sleep(fate.seconds)
            life.kill()
        code = life.ended()
        if code == -signal.SIGKILL:
            self.kills[life.killed_at] += 1
        return code, life.said

    def approved(self, *wish: str, topic: str | None = None) -> list[str]:
        """Return the arguments of a wish for a topic, with the approval of its current plan."""
        wishes = ["--topic", topic or self.topic, *wish]

        def planned() -> str | None:
            code, said = self.run(*wishes, "--dry-run", "-o", "json")
            lines = [line for line in said.splitlines() if line.startswith("{")] or ["{}"]
            try:
                plan = json.loads(said) if said.startswith("{") else json.loads(lines[0])
            except ValueError:
                return None
            return plan["hash"] if code == 0 and plan.get("partitions") else None

        return [*wishes, "--approve", str(eventually(planned, f"a plan for {wishes}"))]

    def for_other_leaders(self) -> list[str]:
        """Return the wish for the current replicas, with the last one of each partition as preferred leader."""
        rows = [state.replicas for _, state in sorted(self.states(self.topic).items())]
        spec = {
            "topologyRef": {"name": "faults"},
            "partitions": len(rows),
            "replicationFactor": len(rows[0]),
            "placement": {"assignment": [[row[-1], *row[:-1]] for row in rows]},
        }
        meta = {"name": self.topic, "namespace": "faults"}
        body = {"apiVersion": "rackspan.dev/v1alpha1", "kind": "KafkaTopic", "metadata": meta, "spec": spec}
        self._manifest.write_text(json.dumps(body))
        return ["--filename", str(self._manifest)]

    def taker(self) -> int:
        """Return the id plus 1 of a broker that gets a new replica according to the journal, or 0 if there is none."""
        if not self.journal.exists():
            return 0
        record = json.loads(self.journal.read_text())
        before = {(topic, change[0]): change[1] for topic, some in record["changes"].items() for change in some}
        new = [set(replicas).difference(before[topic, number]) for topic, number, replicas in record["started"]]
        return max((broker + 1 for brokers in new for broker in brokers), default=0)

    def begun(self) -> set[int]:
        """Return the partitions whose replica list was requested according to the journal."""
        return {number for _, number, _ in json.loads(self.journal.read_text())["started"]}

    def nothing_left_over(self) -> None:
        """Raise FaultError if a reassignment, a throttle or a journal is left."""
        self.nothing_left_in_kafka(self.topic)
        if self.journal.exists():
            raise FaultError("the journal is still there")

    def settled(self, wish: Sequence[str]) -> None:
        """Raise TimeoutError if the wish is not fulfilled."""
        without = wish[: wish.index("--approve")]

        def done() -> bool:
            code, said = self.run(*without, "--dry-run", "-o", "json")
            return code == 0 and '"partitions": []' in said.replace('"partitions":[]', '"partitions": []')

        eventually(done, f"nothing more to do for {without}")
