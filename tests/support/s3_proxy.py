"""A proxy process for an S3 server that refuses the first writes like an overloaded store and responds late.

It is a separate process, because a client in the test's process holds the GIL while it waits for a response.
"""

import http.client
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEFT = "/left-to-refuse"


def serve(port, upstream, refuse, seconds):
    left = [refuse]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == LEFT:
                self._answer(200, {}, str(left[0]).encode())
                return
            time.sleep(seconds)
            if left[0] and self.command in ("PUT", "POST"):
                left[0] -= 1
                self._answer(503, {}, b"<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>")
                return
            connection = http.client.HTTPConnection(upstream, timeout=30)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # the signature covers the host that the client used
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            self._answer(answer.status, dict(answer.getheaders()), answer.read())

        def _answer(self, status, headers, body):
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            # A response to HEAD has the length of the response to GET, and no body.
            self.send_header(
                "Content-Length", headers.get("Content-Length", "0") if self.command == "HEAD" else len(body)
            )
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - as the library names them

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
