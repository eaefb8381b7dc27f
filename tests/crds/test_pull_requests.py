"""The files that `plan -f` rejects in a pull request, compared with the responses of the API server."""

import pytest
import yaml
from tests.support.pull_requests import BAD, GOOD

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("file", BAD.values(), ids=BAD)
def test_api_server_rejects_files_that_are_invalid_without_their_topology(api_server, file):
    answer = api_server.create("default", yaml.safe_load(file.text), dry_run=True)
    if file.refused is None:
        assert answer.accepted, answer.message
    elif file.refused.isdigit():
        assert answer.code == int(file.refused)
    else:
        assert answer.code in (400, 422)
        assert file.refused in answer.message


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_api_server_accepts_valid_files(api_server, text):
    answer = api_server.create("default", yaml.safe_load(text), dry_run=True)
    assert answer.accepted, answer.message
