"""`rackspan release` says what stays in Kafka."""

from rackspan.cli.commands.release import _cordons


class Kube:
    async def objects(self, kind):
        assert kind == "RackTopology"
        for name, status in (("prod", {"cordons": [3, 4]}), ("new", None), ("calm", {"cordons": []})):
            yield {"metadata": {"namespace": "kafka", "name": name}, "status": status}


async def test_brokers_that_stay_cordoned_are_named():
    (told,) = await _cordons(Kube())
    assert told == (
        "kafka/prod: 2 brokers are still cordoned in Kafka for a drain: 3, 4; to place replicas there again, "
        "delete cordoned.log.dirs there"
    )
