"""HTTP by hand over a socket: requests that no client library would send, and their answers."""
import dataclasses
import json
import socket
import ssl
import time


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict     # names in lower case
    body: bytes

    def json(self):
        return json.loads(self.body.decode("utf-8", "strict"))


def request_bytes(method, target, body=None, headers=()):
    """A request as it goes over the wire; `body` gets its Content-Length."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def post_bytes(target, body, headers=()):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_bytes("POST", target, content, ("Content-Type: application/json", *headers))


class Connection:
    """One connection; `with Connection(server) as c: c.send(...); c.read_answer()`."""

    def __init__(self, server, timeout_s=20, tls=False):
        self.socket = socket.create_connection((server.host, server.port), timeout=timeout_s)
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_slowly(self, data, pieces, pause_s):
        """The same bytes in so many pieces."""
        size = max(1, -(-len(data) // pieces))
        for begin in range(0, len(data), size):
            self.send(data[begin:begin + size])
            time.sleep(pause_s)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def _fill(self):
        """More bytes of the answer; False at its end."""
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def _take(self, count):
        while len(self.buffer) < count:
            assert self._fill(), f"closed after {len(self.buffer)} of {count} bytes"
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _take_to(self, mark):
        while mark not in self.buffer:
            assert self._fill(), f"closed before {mark!r}: {self.buffer!r}"
        taken, self.buffer = self.buffer.split(mark, 1)
        return taken

    def read_answer(self, to_head=False):
        """The next answer; to_head: it answers HEAD, so no body follows whatever its length says."""
        first, *lines = self._take_to(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version == "HTTP/1.1", first
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        body = b""
        if not to_head and int(status) >= 200 and int(status) != 204:
            if headers.get("transfer-encoding") == "chunked":
                while size := int(self._take_to(b"\r\n"), 16):
                    body += self._take(size)
                    assert self._take(2) == b"\r\n"
                self._take_to(b"\r\n")
            else:
                body = self._take(int(headers["content-length"]))
        return Answer(int(status), headers, body)

    def is_closed_by_peer(self):
        """True once the server has closed and nothing is left to read."""
        try:
            return not self.buffer and self.socket.recv(1 << 16) == b""
        except ConnectionResetError:
            return True


def exchange(server, data, **options):
    """Sends `data` on a fresh connection and reads one answer."""
    with Connection(server, **options) as connection:
        connection.send(data)
        return connection.read_answer()
