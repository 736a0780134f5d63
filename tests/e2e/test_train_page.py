"""The live page of strata train in a real browser, while a run is going on."""
import http.client
import re
import subprocess
import time

import pytest

from conftest import require
from watched_page import CHROMIUM, chromium, open_watched

TEXT = "".join(f"the {a} sat on the {b}. " for a in ("cat", "dog", "cow", "fox") for b in ("mat", "log", "hill", "rock")) * 12
SMALL = ["--layers", 2, "--heads", 2, "--hidden", 32, "--context", 32, "--batch", 8, "--lr", 0.01, "--warmup", 5]


@pytest.fixture(scope="module")
def browser():
    require(CHROMIUM)
    with chromium() as browser:
        yield browser


@pytest.fixture
def start(strata, tmp_path):
    """start(*arguments): a run with a live page; the process and the page's address."""
    processes = []

    def make(*arguments):
        (tmp_path / "data.txt").write_text(TEXT)
        command = [strata, "train", "--data", tmp_path / "data.txt", "--out", tmp_path / "gpt", *SMALL, "--ui", *arguments]
        process = subprocess.Popen([str(a) for a in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        for line in process.stderr:
            if found := re.search(r"live page: (http://127\.0\.0\.1:\d+/)", line):
                return process, found[1]
        raise AssertionError("no live page")

    yield make
    for process in processes:
        process.kill()
        process.communicate()


def figure(page, name):
    return page.locator(f'dd[data-name="{name}"]').inner_text()


def test_a_run_is_seen_while_it_goes_on(browser, start):
    process, url = start("--steps", 100_000, "--eval-every", 40, "--sample-every", 60)
    page = open_watched(browser, url)
    page.locator('dd[data-name="Validation loss"]:not(:text-is("–"))').wait_for()
    first = int(figure(page, "Step").split(" ")[0])
    loss = float(figure(page, "Validation loss"))
    page.wait_for_function("(first) => Number(document.querySelector('dd[data-name=Step]').textContent.split(' ')[0]) > first + 80", arg=first)
    page.wait_for_function("(loss) => Number(document.querySelector('dd[data-name=\"Validation loss\"]').textContent) !== loss", arg=loss)
    # The curves: both lines of the loss, one of each other.
    assert page.locator("#loss path").count() == 2
    for name in ("learning_rate", "gradient_norm", "tokens_per_second"):
        assert page.locator(f"#{name} path").count() == 1
        assert "no values" not in page.locator(f"#{name} svg").get_attribute("aria-label")
    # Samples: the newest is open and on top.
    page.locator("#samples details").nth(1).wait_for()
    assert page.locator("#samples details[open]").count() == 1 and page.locator("#samples pre").first.inner_text().strip()
    # Attention of 2 layers of 2 heads; one is enlarged, with tokens as long as the page is asked.
    assert page.locator("#attention button").count() == 4 and page.locator("#enlarged").is_hidden()
    page.get_by_role("button", name="layer 1, head 0").click()
    assert page.locator("#enlarged figcaption").inner_text().startswith("Layer 1, head 0. Strongest link: ")
    page.get_by_role("button", name="layer 1, head 0").click()
    assert page.locator("#enlarged").is_hidden()
    # Another browser that comes later sees the same run from its beginning.
    other = open_watched(browser, url, color_scheme="dark", viewport={"width": 380, "height": 700})
    other.locator('dd[data-name="Step"]').wait_for()
    assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert other.locator("#loss path").count() == 2
    process.terminate()
    process.wait(60)
    page.get_by_text("Stopped.").wait_for()
    assert page.watch.faults == [] and other.watch.faults == []


def test_the_end_is_told(browser, start):
    process, url = start("--steps", 100_000, "--eval-every", 1_000, "--max-minutes", 0.15)
    page = open_watched(browser, url)
    page.get_by_text("The time is up.").wait_for()
    assert figure(page, "Step").endswith(" of 100000")
    assert process.wait(60) == 0
    time.sleep(.5)   # nothing is asked of a server that has gone
    assert page.watch.faults == []


def test_other_names_for_this_machine_are_refused(start):
    """A page from elsewhere whose name has been made to point here gets nothing."""
    _, url = start("--steps", 100_000)
    for host, status in (("evil.example", 403), (url.split("/")[2], 200), (f"localhost:{url.split(':')[2].rstrip('/')}", 200)):
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=30)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


def test_what_is_refused(strata, tmp_path):
    (tmp_path / "data.txt").write_text(TEXT)
    for arguments, message in ((["--ui", "70000", "--out", tmp_path / "gpt"], "70000"), (["--ui", "--dry-run"], "--dry-run and --ui exclude each other")):
        done = subprocess.run([str(a) for a in [strata, "train", "--data", tmp_path / "data.txt", *arguments]], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and message in done.stderr, done.stderr
