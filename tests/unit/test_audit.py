"""The audit of locked packages with a vulnerability database. A failed query does not count as a clean result."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from dev.audit import audit

LOCK = """\
aiohttp==3.9.0 ; python_version < "4" \\
    --hash=sha256:00
    # via kopf
orjson==3.8.0 \\
    --hash=sha256:11
"""


@pytest.fixture
def database():
    """A database with `answers` by name and version. `whole` replaces the whole response."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            asked = [(one["package"]["name"], one["version"]) for one in queries]
            results = [
                {"vulns": [{"id": at} for at in server.answers[one]]} if one in server.answers else {} for one in asked
            ]
            body = server.whole or json.dumps({"results": results})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.whole = {}, ""
    server.url = f"http://127.0.0.1:{server.server_port}/v1/querybatch"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def locks(tmp_path):
    (tmp_path / "one.lock").write_text(LOCK)
    (tmp_path / "two.lock").write_text("orjson==3.8.0 \\\n    --hash=sha256:11\n")
    return sorted(tmp_path.iterdir())


def test_audit_fails_and_prints_the_known_vulnerabilities(locks, database, capsys):
    database.answers = {("aiohttp", "3.9.0"): ["GHSA-1", "CVE-2"]}
    assert audit(locks, database.url) == 1
    assert capsys.readouterr().out == (
        "aiohttp 3.9.0: GHSA-1, CVE-2\n2 packages checked, 1 with known vulnerabilities\n"
    )


def test_audit_succeeds_without_known_vulnerabilities(locks, database, capsys):
    assert audit(locks, database.url) == 0
    assert capsys.readouterr().out == "2 packages checked, 0 with known vulnerabilities\n"


@pytest.mark.parametrize("whole", ["", "no JSON", "{}", '{"results": []}', '{"results": [1, 2]}', "[]"])
def test_audit_reports_not_checked_after_an_invalid_response(locks, database, capsys, whole):
    database.whole = whole
    url = database.url if whole else "http://127.0.0.1:1/"
    assert audit(locks, url) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"NOT CHECKED: {url} did not respond")
    assert "packages checked" not in told
