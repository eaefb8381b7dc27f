"""What `plan -f` refuses of a pull request's files, held against what the API server says of the same files."""

import pytest
import yaml
from tests.support.pull_requests import BAD, GOOD

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("file", BAD.values(), ids=BAD)
def test_the_api_server_refuses_what_is_wrong_in_the_object_alone(api_server, file):
    answer = api_server.create("default", yaml.safe_load(file.text), dry_run=True)
    if file.refused is None:
        assert answer.accepted, answer.message
    elif file.refused.isdigit():
        assert answer.code == int(file.refused)
    else:
        assert answer.code in (400, 422)
        assert file.refused in answer.message


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_the_api_server_accepts_what_is_fine(api_server, text):
    answer = api_server.create("default", yaml.safe_load(text), dry_run=True)
    assert answer.accepted, answer.message
