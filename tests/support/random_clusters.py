"""Random clusters."""

import random

from tests.support.command import cluster


def random_cluster(seed, *, name, missing=False, levels=3):
    """Return brokers in an uneven tree, and topics of mixed replication factors, of which most are badly placed.

    Some brokers may have no replicas. Some partitions have no leader or a smaller ISR. `missing` removes two racks.
    """
    chance = random.Random(seed)
    racks = {}
    for broker in range(chance.randint(4, 14)):
        depth = levels if chance.random() < 0.8 else chance.randint(1, levels)
        racks[broker * 3] = "/" + "/".join(f"{'rzh'[at]}{chance.randint(0, 2)}" for at in range(depth))
    if missing:
        for broker in chance.sample(sorted(racks), 2):
            racks[broker] = None
    ids = sorted(racks)
    topics = []
    for number in range(chance.randint(5, 12)):
        partitions = []
        width = chance.randint(1, min(5, len(ids)))
        for partition in range(chance.randint(1, 12)):
            odd = chance.random() < 0.15
            replicas = chance.sample(ids, chance.randint(1, min(5, len(ids))) if odd else width)
            row = {"partition": partition, "replicas": replicas}
            if chance.random() < 0.3:
                row["isr"] = chance.sample(replicas, chance.randint(0, len(replicas)))
                others = [broker for broker in replicas if broker not in row["isr"]]
                row["elr"] = chance.sample(others, chance.randint(0, len(others)))
            if chance.random() < 0.3:
                row["leader"] = chance.choice([None, *replicas])
            if chance.random() < 0.5:
                row["sizeBytes"] = chance.randint(0, 10**12)
            partitions.append(row)
        config = {"min.insync.replicas": str(chance.randint(1, 4))} if chance.random() < 0.7 else {}
        topics.append({"name": f"topic-{number}", "partitions": partitions, "config": config})
    return cluster(*topics, racks=racks, name=name)
