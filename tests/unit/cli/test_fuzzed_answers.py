"""Randomly corrupted responses of Kafka: a command ends with an error message and a documented exit code.

RACKSPAN_FUZZ_SEEDS sets the number of seeds. To repeat one seed, select its number with `-k`.
"""

import os
from itertools import cycle

import pytest
from tests.support.hostile_kafka import FuzzedKafka, HostileKafka
from tests.support.processes import run_in_process

SEEDS = int(os.environ.get("RACKSPAN_FUZZ_SEEDS", "7"))
COMMANDS = (
    ("check", "-o", "json"),
    ("plan", "--rebalance"),
    ("snapshot",),
    ("what-if", "--all"),
    ("locality",),
    ("apply", "--dry-run"),
)
TOPICS = {"orders": [[0, 1, 2], [1, 2, 0]], "logs": [[2, 0]], "payments": [[1]]}


@pytest.mark.parametrize(("seed", "command"), list(zip(range(SEEDS), cycle(COMMANDS), strict=False)))
def test_command_ends_with_a_documented_exit_code_on_corrupted_responses(tmp_path, seed, command):
    with HostileKafka(topics=TOPICS) as kafka, FuzzedKafka(kafka.address, seed, share=0.25) as fuzzed:
        ran = run_in_process(tmp_path, *command, "--bootstrap-server", fuzzed.address)
    assert ran.code in (0, 1, 2, 3, 71), (ran.err, fuzzed.spoiled)
    assert len(ran.errors) == (ran.code not in (0, 1)), (ran.err, fuzzed.spoiled)
