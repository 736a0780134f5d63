"""Names that the checks of several clients use."""
import time
import urllib.request

MODEL = "smollm2-135m"
LONG_TEXT = "word " * 9000  # more tokens than the model's context
CONTEXT_OVERFLOW_TEXT = "maximum context length is 8192 tokens"  # LangChain and litellm look for such words


class RunningRequests:
    """How many requests the server works on, from its metrics."""

    def __init__(self, url):
        self.url = url

    def count(self):
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("strata_requests_running"))

    def fall_to_zero(self, within_s=10):
        """Whether nothing runs any more after at most `within_s` seconds."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            if self.count() == 0:
                return True
            time.sleep(0.05)
        return False
