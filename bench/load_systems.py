"""The servers that bench/load.py puts under load: each is started for a run of its own."""
import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

from serving import serving

READY_S = 120


class Strata:
    """`strata serve` with flags of its own."""

    def __init__(self, name, options, *flags):
        self.name = name
        self.options = options
        self.flags = flags

    @contextlib.contextmanager
    def running(self, context, clients):
        with serving(self.options.strata, self.options.model, "--context", context, "--max-running", clients,
                     "--kv-memory", self.options.kv_memory, *self.flags) as server:
            yield server.url, server.process.pid


class Llama:
    """llama.cpp's server: continuous batching, a slot for each client, prompts cached."""

    def __init__(self, options):
        self.name = "llama.cpp"
        self.options = options

    @contextlib.contextmanager
    def running(self, context, clients):
        slots = min(clients, self.options.slots)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        folder = os.fspath(self.options.llama)
        command = [f"{folder}/llama-server", "--model", self.options.model, "--host", "127.0.0.1", "--port", port, "--parallel", slots,
                   "--cont-batching", "--ctx-size", context * slots, "--threads", os.cpu_count(), "--threads-batch", os.cpu_count(),
                   "--no-webui", "--offline"]
        environment = {**os.environ, "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            self._wait(process, url)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait()

    @staticmethod
    def _wait(process, url):
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if process.poll() is not None:
                raise SystemExit(f"llama-server ended with status {process.returncode}")
            try:
                with urllib.request.urlopen(url + "/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit(f"llama-server was not ready within {READY_S} s")


def memory_mib(pid):
    """What the process has in memory now."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))
