"""A Git server on loopback: `git http-backend`, the CGI program of Git, behind Python's HTTP server."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BRANCH = "main"
_AUTHOR = ("-c", "user.name=rackspan", "-c", "user.email=rackspan@localhost")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a work tree, and the URL where the server serves it."""

    folder: Path
    url: str

    def commit(self, files: Mapping[str, str], message: str) -> str:
        """Commit these files, by path, as the whole content of the branch. Return the hash of the commit."""
        for path in self.folder.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self._git("add", "--all")
        self._git(*_AUTHOR, "commit", "--quiet", "--allow-empty", f"--message={message}")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@dataclass(frozen=True, slots=True)
class GitServer:
    """Serves the repositories in a folder."""

    folder: Path
    port: int

    def repository(self, name: str) -> Repository:
        """Create an empty repository."""
        folder = self.folder / name
        subprocess.run(["git", "init", "--quiet", f"--initial-branch={BRANCH}", str(folder)], check=True)
        return Repository(folder, f"http://127.0.0.1:{self.port}/{name}/.git")


@contextmanager
def git_server(folder: Path) -> Iterator[GitServer]:
    """Serve the repositories in a folder, in threads of this process, during the context."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield GitServer(folder, server.server_port)
        server.shutdown()


def _handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            variables = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = subprocess.run(
                ["git", "http-backend"], input=sent, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True
            ).stdout
            head, _, body = answer.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
