"""A demo executor: prints each run that the workers of the compose file send, and answers that it is done.

Usage: executor.py PORT. With DUTIFUL_EXECUTOR_MODE=webhook the answer 200 is a success.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Runs(BaseHTTPRequestHandler):
    """Takes one run for each POST."""

    def do_POST(self) -> None:
        """Print the run, and answer that it is done."""
        run = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print(json.dumps(run), flush=True)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Write no line for each request: the run itself is printed."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("", int(sys.argv[1])), Runs) as server:
        print(f"takes runs at port {server.server_address[1]}", flush=True)
        server.serve_forever()
