"""A client that notes when each piece of a streamed answer comes."""
import json
import random
import threading
import time
import urllib.request

WORDS = "the sea was calm and wind had gone over hill to old house where no one knew what time it is now".split()


def words(count, seed):
    """About as many tokens."""
    return " ".join(random.Random(seed).choices(WORDS, k=count))


class Streaming(threading.Thread):
    """One request to /v1/completions on a thread of its own; `times` grows with the text. The answer is greedy: drawn ones have rare
    characters of several tokens, whose gap is that of as many steps."""

    def __init__(self, url, model, prompt, max_tokens):
        super().__init__(daemon=True)
        self.url = url
        self.body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True,
                     "stream": True, "stream_options": {"include_usage": True}}
        self.sent = time.monotonic()
        self.times = []
        self.prompt_tokens = 0
        self.fault = None
        self.start()

    def run(self):
        try:
            request = urllib.request.Request(self.url + "/v1/completions", json.dumps(self.body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=3600) as answer:
                for line in answer:
                    if not line.startswith(b"data: {"):
                        continue
                    now, frame = time.monotonic(), json.loads(line[6:])
                    if any(choice.get("text") for choice in frame.get("choices", [])):
                        self.times.append(now)
                    if frame.get("usage"):
                        self.prompt_tokens = frame["usage"]["prompt_tokens"]
        except (OSError, ValueError) as error:
            self.fault = error

    def wait(self):
        self.join()
        if self.fault or not self.times:
            raise SystemExit(f"{self.url}: no answer: {self.fault}")
        return self

    def wait_for(self, count):
        """Until so many pieces are there."""
        while len(self.times) < count and self.is_alive():
            time.sleep(0.005)
        if len(self.times) < count:
            raise SystemExit(f"{self.url}: the answer ended after {len(self.times)} pieces: {self.fault}")

    @property
    def ttft_s(self):
        return self.times[0] - self.sent

    def gaps(self, since=0.0, until=float("inf")):
        """Between pieces, of which the later came within the two times."""
        return [b - a for a, b in zip(self.times, self.times[1:]) if since <= b <= until]
