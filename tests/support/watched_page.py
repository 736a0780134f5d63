"""A headless Chromium for the chat page, with a watch on everything the page must not do."""
import contextlib
import os
import pathlib

CHROMIUM = pathlib.Path(os.environ.get("STRATA_CHROMIUM") or "/usr/bin/chromium")
TIMEOUT_MS = 30_000


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


class Watch:
    """What went wrong on a page: console errors, exceptions, dialogs, requests to other hosts."""

    def __init__(self, page, origin):
        self.faults = []
        page.on("console", lambda m: self.faults.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.faults.append(f"exception: {e}"))
        page.on("dialog", self.dismiss)
        page.on("request", lambda r: None if r.url.startswith(origin) else self.faults.append(f"request to {r.url}"))

    def expect(self, what):
        """Forgets the faults that speak of `what`: the browser itself writes failed requests to the console."""
        self.faults = [fault for fault in self.faults if what not in fault]

    def dismiss(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()


def open_watched(browser, url, **options):
    """The page at `url` in a fresh profile of the browser, with page.watch; options: those of a browser context."""
    context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, "reduced_motion": "reduce", **options})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.watch = Watch(page, url)
    page.goto(url)
    return page
