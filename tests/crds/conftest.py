import pytest
from tests.crds.apiserver import ApiServer


@pytest.fixture(scope="session")
def api_server(control_plane, crds):
    """The API server that has the custom resource definitions, spoken to without kubectl."""
    with control_plane.api_client() as client:
        yield ApiServer(client)
