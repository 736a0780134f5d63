"""Takes the pictures of docs/chat-page.md: the chat page with the default model, in a headless Chromium.

Usage (after scripts/build; playwright and pillow installed): python3 tools/docs/chat_pictures.py
Writes docs/pictures/chat-{light,dark,phone}.png with 256 colours, so that each stays far below 150 kB.
"""
import pathlib
import sys

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def main():
    with serving(ROOT / "build" / "release" / "bin" / "strata", "smollm2-135m") as server, chromium() as browser:
        for name, options in PICTURES.items():
            page = open_watched(browser, server.url, **options)
            converse(page)
            path = ROOT / "docs" / "pictures" / f"chat-{name}.png"
            path.parent.mkdir(exist_ok=True)
            page.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")
            page.context.close()


if __name__ == "__main__":
    main()
