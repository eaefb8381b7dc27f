"""Output of `plan -f` for the files of a pull request."""

import pytest
from tests.support.pull_requests import BAD, GOOD, LEVELS, manifest, prod


@pytest.fixture
def plan(rackspan, snapshot, tmp_path):
    """A function that runs `plan` for files with these texts: `plan(text, ...)`."""
    cluster = snapshot(prod())

    def planned(*texts, options=(), source=("--snapshot", cluster)):
        (tmp_path / "topics").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (tmp_path / "topics" / f"{number}.yaml").write_text(text)
        return rackspan("plan", "-f", "topics", *source, *LEVELS, *options)

    return planned


@pytest.mark.parametrize("file", BAD.values(), ids=BAD)
def test_invalid_manifest_is_rejected_with_its_line(plan, file):
    ran = plan(manifest(name="fine"), file.text)
    assert (ran.code, ran.out) == (2, "")
    where, _, said = ran.error.partition(": ")
    assert (where, said.removeprefix("KafkaTopic wish: ").removeprefix("KafkaTopic orders: ")) == (
        f"topics/1.yaml:{file.line}",
        file.sentence,
    )


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_valid_manifest_is_accepted_without_messages(plan, text):
    ran = plan(text)
    assert (ran.code, ran.err) == (0, "")


def test_all_errors_are_reported_in_the_order_of_files_and_lines(plan):
    both = manifest("config:", "  retention.msec: 5", "durability:", "  tolerate: {region: 1}", name="b")
    ran = plan(both, manifest(name="c", replicas="replicationFactor: 9"))
    assert [one.partition(": ")[0] for one in ran.errors] == ["topics/0.yaml:10", "topics/0.yaml:12", "topics/1.yaml:8"]


def test_two_manifests_for_one_topic_are_rejected(plan):
    ran = plan(manifest(name="b"), manifest("topicName: b", name="c"))
    assert (ran.code, ran.error) == (
        2,
        "topics/1.yaml:9: KafkaTopic c: topic b has another KafkaTopic before this one, at topics/0.yaml:1",
    )


@pytest.mark.parametrize(("version", "kind"), [("[rackspan.dev/v1alpha1]", "a list"), ("{a: b}", "a mapping")])
def test_api_version_of_a_wrong_type_does_not_hide_other_errors(plan, version, kind):
    ran = plan(f"kind: KafkaTopic\napiVersion: {version}\n", BAD["an unknown field"].text)
    assert (ran.code, len(ran.errors)) == (2, 2)
    assert ran.errors[0] == f"topics/0.yaml:2: apiVersion: must be a text, not {kind}"


def test_manifests_of_two_topologies_are_rejected(plan):
    ran = plan(manifest(name="b"), manifest(name="c").replace("name: kafka", "name: other"))
    assert (ran.code, ran.error) == (
        2,
        "topics/1.yaml:6: KafkaTopic c: is of RackTopology default/other, not of default/kafka: plan for one at a time",
    )


def test_new_topics_are_placed_evenly_together_and_printed_with_their_durability(plan):
    texts = [manifest("durability:", "  tolerate: {zone: 1}", name=f"new-{number}") for number in range(4)]
    made = plan(*texts, options=("-o", "json")).json
    assert [(one["topic"], one["minInsyncReplicas"]) for one in made["created"]] == [
        (f"new-{number}", 2) for number in range(4)
    ]
    there = [row["replicas"] for one in prod()["topics"] for row in one["partitions"]]
    held = [broker for rows in (there, *(one["replicas"] for one in made["created"])) for row in rows for broker in row]
    assert {held.count(broker) for broker in range(6)} == {8}
    zone = next(one for one in made["created"][0]["levels"] if one["level"] == "zone")
    assert zone == {"level": "zone", "domains": 2, "keepsWrites": True, "staysWritable": True}
    assert made["moves"] == 0
    text = plan(*texts).out
    assert text.startswith("4 topics created; by level, the number of domains that hold an acks=all write, at least:")
    assert "new-0" in text


def test_plan_prints_changed_configs(plan):
    ran = plan(manifest("config:", "  retention.ms: 5", name="orders"), options=("-o", "json"))
    assert ran.json["configured"] == [{"topic": "orders", "set": {"retention.ms": "5"}}]
    assert "retention.ms=5" in plan().out


def test_plan_creates_a_topic_in_a_cluster_without_topics(plan, snapshot):
    empty = snapshot({**prod(), "topics": []}, "empty.json")
    ran = plan(manifest(name="first"), source=("--snapshot", empty))
    assert (ran.code, ran.err) == (0, "")
    assert "1 topic created" in ran.out


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (manifest(name="orders"), (), 0),
        (manifest(), (), 2),
        (manifest("config:", "  retention.ms: 5", name="orders"), (), 2),
        (manifest(name="orders", replicas="replicationFactor: 4"), (), 2),
        (BAD["more replicas than brokers"].text, (), 1),
        (BAD["an unknown field"].text, (), 1),
        (manifest(name="orders", replicas="replicationFactor: 7"), (), 1),
        (manifest(), ("--levels", "a,a"), 1),
        (manifest(), ("--no-such-option",), 1),
        (manifest(), ("-o", "png"), 1),
    ],
)
def test_detailed_exit_codes_equal_those_of_terraform(plan, text, options, code):
    assert plan(text, options=("--detailed-exitcode", *options)).code == code


def test_unexpected_exception_with_detailed_exitcode_exits_with_1(plan, monkeypatch):
    monkeypatch.setattr("rackspan.cli.actions.planning_moves.plan_requested", None)
    ran = plan(manifest(), options=("--detailed-exitcode",))
    assert (ran.code, ran.error) == (1, "a defect of rackspan: TypeError: 'NoneType' object is not callable")


def test_infeasible_plan_is_reported_at_the_line_of_the_manifest(plan):
    ran = plan(manifest(name="orders", replicas="replicationFactor: 7"))
    assert (ran.code, ran.error.partition(": ")[0]) == (2, "topics/0.yaml:8")


def test_markdown_in_a_config_value_of_a_manifest_is_escaped(plan):
    hostile = "@org/team #1 <b>|x| [a](javascript:b) `c`\\n| d |"
    ran = plan(manifest("config:", f'  internal.x: "{hostile}"', name="orders"), manifest(), options=("-o", "markdown"))
    assert ran.code == 0
    assert "### 1 topic created" in ran.out
    (row,) = [line for line in ran.out.splitlines() if "internal" in line]
    assert row == (
        r"| `orders` | internal.x=@&#8203;org/team #&#8203;1 \<b\>\|x\| \[a\](javascript:b) \`c\`\\n\| d \| |"
    )
