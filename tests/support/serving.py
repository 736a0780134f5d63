"""Starting and ending `strata serve` for tests."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading

LISTENING = re.compile(r"listening on (https?)://(\S+):(\d+)")
# Sanitizer builds map and pack a real model in seconds; this only guards against one that never comes up.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


class Server:
    """A running `strata serve`: its address, process and what it has written (stdout and stderr together)."""

    def __init__(self, process, log_path):
        self.process = process
        self.log_path = log_path
        self.scheme = self.host = self.port = None

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f"{self.scheme}://{self.host}:{self.port}"

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def memory_bytes(self, key="VmRSS"):
        """A size of /proc/PID/status: VmRSS (now) or VmHWM (peak)."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key + ":"))

    def client(self, **options):
        """The official client, without retries: a test wants to see the first answer."""
        import openai
        settings = {"base_url": f"{self.url}/v1", "api_key": "none", "max_retries": 0, "timeout": 120, **options}
        return openai.OpenAI(**settings)

    def stop(self, sig=signal.SIGTERM, timeout_s=STOP_TIMEOUT_S):
        """Asks this process, by its id, to end; returns its exit status (negative: the signal that ended it)."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"strata serve did not end within {timeout_s} s of {sig!r}:\n{self.log()[-4000:]}") from None


def _read_until_listening(server, ready):
    """Copies the server's output into its log and sets `ready` at the line that names the address, or at the end."""
    with server.process.stdout, open(server.log_path, "w", encoding="utf-8", errors="replace") as log:
        for line in server.process.stdout:
            log.write(line)
            log.flush()
            match = LISTENING.search(line)
            if match and server.port is None:
                server.scheme, server.host, server.port = match[1], match[2], int(match[3])
                ready.set()
    ready.set()


def start_server(strata, *arguments, env=None, command=("serve",)):
    """Starts `strata serve ARGUMENTS` (or another program and command) on a free loopback port and waits until it listens."""
    handle, log_path = tempfile.mkstemp(prefix="strata-serve-", suffix=".log")
    os.close(handle)
    process = subprocess.Popen(
        [str(strata), *command, "--host", "127.0.0.1", "--port", "0", *map(str, arguments)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env={**os.environ, **(env or {})})
    server = Server(process, log_path)
    ready = threading.Event()
    threading.Thread(target=_read_until_listening, args=(server, ready), daemon=True).start()
    if not ready.wait(START_TIMEOUT_S) or server.port is None:
        process.kill()
        status = process.wait()
        raise AssertionError(f"strata serve did not come up (exit status {status}):\n{server.log()[-4000:]}")
    return server


@contextlib.contextmanager
def serving(strata, *arguments, env=None):
    """`with serving(strata, "--model", ...) as server:`; the server must end with status 0 when asked to."""
    server = start_server(strata, *arguments, env=env)
    try:
        yield server
        early = server.process.poll()
        assert early is None, f"strata serve ended by itself with status {early}:\n{server.log()[-4000:]}"
        status = server.stop()
        assert status == 0, f"strata serve ended with status {status}:\n{server.log()[-4000:]}"
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        os.unlink(server.log_path)
