"""A `strata serve` process for measurements."""
import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request


class Server:
    def __init__(self, process, url):
        self.process = process
        self.url = url

    def memory_mib(self, key):
        """A line of /proc/PID/status: VmRSS (now), VmHWM (peak), RssAnon, RssFile."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(key + ":"))

    def generate(self, prompt, max_tokens):
        """The answer of /generate at temperature 0."""
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0}).encode()
        request = urllib.request.Request(self.url + "/generate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)


@contextlib.contextmanager
def serving(strata, model, *arguments):
    """Starts strata with `model`, waits until it is ready, and ends it."""
    process = subprocess.Popen([str(strata), "serve", str(model), "--host", "127.0.0.1", "--port", "0", *map(str, arguments)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url, log = None, ""
        for line in process.stdout:
            log += line
            if match := re.search(r"listening on (http://\S+:\d+)", line):
                url = match[1]
                break
        if url is None:
            raise RuntimeError(f"strata serve did not come up:\n{log}")
        while True:
            try:
                urllib.request.urlopen(url + "/health/ready", timeout=60)
                break
            except urllib.error.URLError:
                if process.poll() is not None:
                    raise RuntimeError(f"strata serve ended:\n{process.stdout.read()}") from None
                time.sleep(0.05)
        yield Server(process, url)
    finally:
        process.terminate()
        process.wait()
