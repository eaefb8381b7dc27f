"""Rotation of the certificate authority of the API server while the operator runs."""

import json
import shutil

import pytest
from dev.stack.certificates import CertificateAuthority
from tests.support.api_proxy import ApiProxy
from tests.support.waiting import until


@pytest.mark.usefixtures("alone")
def test_operator_accepts_a_rotated_api_server_authority_without_restart(
    api_client, tmp_path, operator_factory, objects, kafka, broker_sites
):
    old, new = CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")
    trusted = tmp_path / "ca.crt"
    shutil.copy(old.cert, trusted)
    with ApiProxy(api_client.configuration, old.server("api")) as api:
        path = api.kubeconfig(tmp_path / "kubeconfig", authority=trusted)
        own = operator_factory("--lease-seconds=12", f"--namespace={objects.namespace}", kubeconfig=path)
        objects.create_topology(kafka.bootstrap())
        objects.create_topic("early")
        objects.until_ready("early")
        pid = own.pid

        api.restart(new.server("api"))
        until(lambda: own.get("/readyz")[0] == 503, "the operator to say that nothing works")
        assert json.loads(own.get("/readyz")[1])["leaseCurrent"] is False
        assert own.get("/healthz")[0] == 200

        shutil.copy(new.cert, trusted)
        own.until_ready()
        objects.create_topic("late")
        objects.until_ready("late")
        assert own.pid == pid
        assert own.tracebacks == []
