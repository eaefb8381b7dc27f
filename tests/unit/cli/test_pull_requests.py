"""What `plan -f` says of the files of a pull request."""

import pytest
from tests.support.pull_requests import BAD, GOOD, LEVELS, manifest, prod


@pytest.fixture
def plan(rackspan, snapshot, tmp_path):
    """Plans for files, by their texts: `plan(text, ...)`."""
    cluster = snapshot(prod())

    def planned(*texts, options=(), source=("--snapshot", cluster)):
        (tmp_path / "topics").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (tmp_path / "topics" / f"{number}.yaml").write_text(text)
        return rackspan("plan", "-f", "topics", *source, *LEVELS, *options)

    return planned


@pytest.mark.parametrize("file", BAD.values(), ids=BAD)
def test_a_file_that_can_never_be_is_refused_at_its_line(plan, file):
    ran = plan(manifest(name="fine"), file.text)
    assert (ran.code, ran.out) == (2, "")
    where, _, said = ran.error.partition(": ")
    assert (where, said.removeprefix("KafkaTopic wish: ").removeprefix("KafkaTopic orders: ")) == (
        f"topics/1.yaml:{file.line}",
        file.sentence,
    )


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_file_that_is_fine_passes(plan, text):
    ran = plan(text)
    assert (ran.code, ran.err) == (0, "")
