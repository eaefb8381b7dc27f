import pytest
from tests.crds.apiserver import ApiServer


@pytest.fixture(scope="session")
def api_server(control_plane, crds):
    """Yield a client, without kubectl, of the API server that has the custom resource definitions."""
    with control_plane.api_client() as client:
        yield ApiServer(client)
