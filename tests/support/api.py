"""Calling the server as a plain HTTP client: whole answers, streams with their times, and /metrics."""
import dataclasses
import json
import re
import time

import httpx

from conftest import require_case

TIMEOUT_S = 600  # a sanitizer on a busy machine; only what hangs takes so long
CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"


def case_json(name):
    """A JSON input of the shared cases: case_json("C01/whole.json")."""
    return json.loads(require_case(name).read_text(encoding="utf-8"))


def post(server, path, body, **headers):
    """The answer to `body` (bytes as they are, anything else as JSON)."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
    return httpx.post(server.url + path, content=content, headers=headers, timeout=TIMEOUT_S, verify=False)


def answer(server, path, body, **headers):
    """The JSON of a request that must succeed."""
    response = post(server, path, body, **headers)
    assert response.status_code == 200, (response.status_code, response.text[:500])
    return response.json()


def computed(usage):
    """`usage` without what the prefix cache had: the same however often a request is repeated."""
    details = {key: count for key, count in usage["prompt_tokens_details"].items() if key != "cached_tokens"}
    return {**usage, "prompt_tokens_details": details}


def error(server, path, body, status, **headers):
    """The error object of a request that must fail with `status`, its form checked (clients.md)."""
    return error_of(post(server, path, body, **headers), status)


def error_of(response, status):
    assert response.status_code == status, (response.status_code, response.text[:500])
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    found = response.json()["error"]
    assert set(found) == {"message", "type", "param", "code"} and found["message"] and found["type"]
    return found


@dataclasses.dataclass
class Stream:
    """A whole event stream: its data frames as JSON (without [DONE]), when each came, and what named events there were."""
    frames: list
    times: list
    named: list
    headers: dict

    def choice_frames(self, index=0):
        return [choice for frame in self.frames for choice in frame.get("choices", []) if choice["index"] == index]

    def deltas(self, index=0):
        """The texts of one choice, frame by frame, for chat and completions alike."""
        return [c["delta"].get("content", "") if "delta" in c else c["text"] for c in self.choice_frames(index)]

    def text(self, index=0):
        return "".join(self.deltas(index))

    def finish_reason(self, index=0):
        """The finish_reason of one choice, which must be in its last frame and only there."""
        reasons = [choice["finish_reason"] for choice in self.choice_frames(index)]
        assert reasons and all(reason is None for reason in reasons[:-1]), reasons
        return reasons[-1]

    def usages(self):
        return [frame["usage"] for frame in self.frames if frame.get("usage") is not None]

    def largest_gap_s(self):
        return max(b - a for a, b in zip(self.times, self.times[1:]))


def read_stream(chunks, headers):
    """Reads an event stream to its end and checks its form: \\n only, whole events, valid UTF-8 and JSON, [DONE] last."""
    raw, frames, times, named, done = b"", [], [], [], False
    for chunk in chunks:
        raw += chunk
        *events, raw = raw.split(b"\n\n")
        for event in events:
            assert b"\r" not in event, event
            assert not done, ("after [DONE]", event)
            name = None
            for line in event.split(b"\n"):
                if line.startswith(b"event: "):
                    name = line[len(b"event: "):].decode()
                elif line == b"data: [DONE]":
                    done = True
                elif line.startswith(b"data: "):
                    frames.append(json.loads(line[len(b"data: "):].decode("utf-8", "strict")))
                    times.append(time.monotonic())
                    if name:
                        named.append(name)
                else:
                    assert line.startswith(b":"), line
    assert done and raw == b"", raw[-500:]
    return Stream(frames, times, named, headers)


def stream(server, path, body, **headers):
    """The event stream that answers `body`, which gets "stream": true (not for /generate/stream, which always streams)."""
    if path.startswith("/v1"):
        body = {**body, "stream": True}
    with httpx.stream("POST", server.url + path, json=body, headers=headers, timeout=TIMEOUT_S, verify=False) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, (response.status_code, response.text[:500])
        assert response.headers["content-type"].startswith("text/event-stream")
        return read_stream(response.iter_raw(), dict(response.headers))


def metrics(server):
    """The samples of /metrics: {"name{labels}": value}."""
    text = httpx.get(server.url + "/metrics", timeout=TIMEOUT_S, verify=False).text
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.MULTILINE)}


def is_idle(server):
    """Nothing runs, nothing waits, no page of the cache is in use."""
    now = metrics(server)
    return not (now["strata_requests_running"] or now["strata_requests_waiting"] or now['strata_kv_pages{state="used"}'])


def wait_until(condition, timeout_s=10, what="the condition"):
    """Polls `condition` until it holds; returns the seconds that took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < timeout_s, f"{what} did not come true within {timeout_s} s"
        time.sleep(0.01)
    return time.monotonic() - begin
