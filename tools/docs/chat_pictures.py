"""Takes the pictures of docs/chat-page.md: the chat page with the default model, in a headless Chromium.

Usage (after scripts/build; playwright and pillow installed): python3 tools/docs/chat_pictures.py [NAME ..]
Writes docs/pictures/chat-{light,dark,phone}.png and engine.png with 256 colours, so that each stays far below 150 kB.
"""
import concurrent.futures
import json
import pathlib
import sys
import urllib.request

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRATA = ROOT / "build" / "release" / "bin" / "strata"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from serving import serving  # noqa: E402 (the path is set above)
from watched_page import chromium, open_watched  # noqa: E402

QUESTIONS = ("Write a four-line poem about rain.", "Write a Python function that reverses a string.")
PICTURES = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 780}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 780}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True},
}


def converse(page):
    """One conversation for each question, greedy, so that the pictures come out the same again."""
    page.evaluate("localStorage.setItem('strata.settings', JSON.stringify({temperature: '0', max_tokens: '220'}))")
    page.reload()
    for question in QUESTIONS:
        page.keyboard.press("Control+k")
        page.get_by_role("textbox", name="Message").fill(question)
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector(".message .figures:has-text('tokens/s')", timeout=120_000)
        page.wait_for_selector("#stop", state="hidden", timeout=120_000)
    page.locator("#log").evaluate("log => { log.scrollTop = 0; }")
    page.wait_for_timeout(300)


def load(url):
    """A dozen answers of mixed lengths, three at a time, in a pool that is too small for them."""
    def ask(number):
        body = json.dumps({"prompt": f"Story {number}: " + "it rained on the sea. " * (8 + 9 * (number % 4)), "seed": number,
                           "max_tokens": 60 + 25 * (number % 3)}).encode()
        request = urllib.request.Request(url + "/generate", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=300).read()

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(18)))


def save(page, name):
    path = ROOT / "docs" / "pictures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def take_engine(browser):
    """The engine's tab at the end of a load with preemptions."""
    with serving(STRATA, "smollm2-135m", "--context", 512, "--kv-memory", "24MiB", "--swap-space", "64MiB") as server, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        page = open_watched(browser, server.url, color_scheme="light", viewport={"width": 1200, "height": 900})
        page.get_by_role("button", name="Engine").click()
        running = pool.submit(load, server.url)
        while not running.done():
            page.wait_for_timeout(500)
        page.wait_for_timeout(700)
        save(page, "engine")
        page.context.close()


def main():
    wanted = sys.argv[1:] or [*PICTURES, "engine"]
    with chromium() as browser:
        if "engine" in wanted:
            take_engine(browser)
        with serving(STRATA, "smollm2-135m") as server:
            for name, options in PICTURES.items():
                if name not in wanted:
                    continue
                page = open_watched(browser, server.url, **options)
                converse(page)
                save(page, f"chat-{name}")
                page.context.close()


if __name__ == "__main__":
    main()
