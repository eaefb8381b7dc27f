"""`rackspan apply` in a fault run: lives, wishes, and what has to hold after each of them."""

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
    """The command on one topic of a cluster, and what is checked after each trial."""

    def __init__(self, kafka: KafkaCluster, topic: str, directory: Path) -> None:
        super().__init__(kafka)
        self.topic = topic
        self.journal = directory / "journal.json"
        self._manifest = directory / "topic.json"
        self.kills: Counter[str] = Counter()
        self.lives = Lives(directory / "apply")

    def start(self, *arguments: str, fate: Fate = _LIVES) -> Life:
        """Start `rackspan apply` with its journal here."""
        cluster = ("--bootstrap-server", self.kafka.bootstrap(), "--journal", str(self.journal))
        return self.lives.start(["apply", *cluster, *arguments], fate)

    def run(self, *arguments: str, fate: Fate = _LIVES) -> tuple[int, str]:
        """Let one life end as its fate says. Gives its exit code and what it said; counts it where it was killed."""
        life = self.start(*arguments, fate=fate)
        if fate.seconds is not None:
            time.sleep(fate.seconds)
            life.kill()
        code = life.ended()
        if code == -signal.SIGKILL:
            self.kills[life.killed_at] += 1
        return code, life.said

    def approved(self, *wish: str, topic: str | None = None) -> list[str]:
        """Wishes for a topic, with the approval of the plan of now, once every broker tells the same."""
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
        """The wish for the replicas that are there, with the last of each partition as its preferred leader."""
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
        """One more than the id of a broker that the journal says shall take a replica, 0 while there is none."""
        if not self.journal.exists():
            return 0
        record = json.loads(self.journal.read_text())
        before = {(topic, change[0]): change[1] for topic, some in record["changes"].items() for change in some}
        new = [set(replicas).difference(before[topic, number]) for topic, number, replicas in record["started"]]
        return max((broker + 1 for brokers in new for broker in brokers), default=0)

    def begun(self) -> set[int]:
        """Partitions of which the journal says that a replica list was asked for."""
        return {number for _, number, _ in json.loads(self.journal.read_text())["started"]}

    def nothing_left_over(self) -> None:
        """Raise where a reassignment, a throttle or a journal is left."""
        self.nothing_left_in_kafka(self.topic)
        if self.journal.exists():
            raise FaultError("the journal is still there")

    def settled(self, wish: Sequence[str]) -> None:
        """Raise where the wish has not come true."""
        without = wish[: wish.index("--approve")]

        def done() -> bool:
            code, said = self.run(*without, "--dry-run", "-o", "json")
            return code == 0 and '"partitions": []' in said.replace('"partitions":[]', '"partitions": []')

        eventually(done, f"nothing more to do for {without}")
