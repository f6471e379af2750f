"""A job that sends a webhook, to a server inside this example."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from chronos import Chronos

received: list[str] = []


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        received.append(f"{self.path} {body} attempt {self.headers['X-Chronos-Attempt']}")
        self.send_response(503 if len(received) == 1 else 200)  # the first request fails and is retried
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    app = Chronos("sqlite://", allow_hosts=["127.0.0.1"])  # private addresses are refused otherwise
    sync = app.webhook(
        "sync",
        f"http://127.0.0.1:{server.server_port}/sync",
        cron="*/5 * * * *",
        json={"job": "{{ job.name }}"},
        retry={"max_attempts": 3, "initial_interval": "50ms"},
    )
    with app:
        print(sync.trigger().wait(timeout=30).status)
    print("\n".join(received))
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
