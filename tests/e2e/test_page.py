"""The chat page in a real browser, against a real server."""
import re
import subprocess
import sys

import pytest

from conftest import require, require_case
from serving import serving
from watched_page import CHROMIUM, chromium, open_watched

LONG_TASK = "Write a very long story about the sea, with many chapters."   # 900 tokens and more at temperature 0
LIGHTEST_CONTRAST = 4.5  # WCAG 2 AA for text

# The lowest contrast between a visible text and what lies behind it: [ratio, text, colours].
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
                         return .2126 * r + .7152 * g + .0722 * b; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (e) => { const layers = [];
    for (let n = e; n; n = n.parentElement) layers.push(parse(getComputedStyle(n).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
  let worst = [99];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest('svg, .visually-hidden, option, #toast')) continue;
    const back = ground(e), front = over(parse(getComputedStyle(e).color), back);
    const [a, b] = [light(front.slice(0, 3)), light(back.slice(0, 3))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst[0]) worst = [ratio, text, String(front), String(back)];
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def browser():
    require(CHROMIUM)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def html_server(strata, tmp_path_factory):
    """A hand-made model whose every answer is `<img src=x onerror=alert(1)>`; it wants the key `sesame`."""
    folder = tmp_path_factory.mktemp("html")
    model = folder / "html.gguf"
    subprocess.run([sys.executable, require_case("common/make_chain.py"), "html", model], check=True)
    keys = folder / "keys"
    keys.write_text("tester:sesame\n")
    keys.chmod(0o600)
    with serving(strata, "--model", f"html={model}", "--api-key-file", keys) as server:
        yield server


@pytest.fixture
def open_page(browser):
    """open_page(server, **context options). At the end nothing on any of these pages may have gone wrong, except what a
    test said it expected: page.watch.expect()."""
    pages = []

    def make(server, **options):
        pages.append(open_watched(browser, server.url, **options))
        return pages[-1]

    yield make
    for page in pages:
        page.context.close()
    faults = [fault for page in pages for fault in page.watch.faults]
    assert not faults, faults


def send(page, text):
    page.get_by_role("textbox", name="Message").fill(text)
    page.keyboard.press("Enter")


def answers(page):
    return page.locator(".message.assistant")


def last_text(page):
    return answers(page).last.locator(".body").inner_text()


def wait_for_text(page, longer_than=0):
    page.wait_for_function("n => document.querySelector('.message.assistant:last-child .body')?.innerText.length > n",
                           arg=longer_than)


def wait_until_done(page):
    page.wait_for_selector("#stop", state="hidden")


def set_settings(page, **fields):
    page.get_by_role("button", name="Settings").click()
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " ")).fill(value)
    page.get_by_role("button", name="Close the settings").click()


def request_bodies(page):
    """The bodies of all chat requests the page sends from now on."""
    bodies = []
    page.on("request", lambda r: bodies.append(r.post_data_json) if r.url.endswith("/chat/completions") else None)
    return bodies


def enter_key(page):
    page.get_by_role("button", name="Enter the key").click()
    page.get_by_label("API key").fill("sesame")
    page.keyboard.press("Enter")
    page.wait_for_selector("#notice", state="hidden")
    page.watch.expect("401")


def test_an_answer_streams_and_is_stopped_by_key_and_by_button(smollm2, open_page):
    page = open_page(smollm2)
    set_settings(page, Temperature="0")
    send(page, LONG_TASK)
    wait_for_text(page)
    before = len(last_text(page))
    wait_for_text(page, before)
    assert page.locator(".figures").last.inner_text().endswith("tokens/s")
    page.keyboard.press("Escape")
    wait_until_done(page)
    stopped = last_text(page)
    assert len(stopped) > before
    assert "stopped" in page.locator(".figures").last.inner_text()

    page.get_by_role("button", name="Regenerate").click()
    wait_for_text(page)
    page.get_by_role("button", name="Stop").click()
    wait_until_done(page)
    assert answers(page).count() == 1, "regenerating replaces the answer"
    # Stopping ends the work on the server too.
    page.wait_for_function(r"async () => /^strata_requests_running(\{.*\})? 0$/m.test(await (await fetch('/metrics')).text())")


def test_settings_and_system_prompt_are_sent_and_kept(smollm2, open_page):
    page = open_page(smollm2)
    bodies = request_bodies(page)
    set_settings(page, System_prompt="Answer in one word.", Temperature="0", Top_p="0.9", Top_k="40", Min_p="0.05",
                 Repetition_penalty="1.1", Presence_penalty="0.2", Most_tokens="6", Seed="7")
    send(page, "What colour is grass?")
    wait_for_text(page)
    wait_until_done(page)
    body = bodies[0]
    assert body["messages"] == [{"role": "system", "content": "Answer in one word."},
                                {"role": "user", "content": "What colour is grass?"}]
    sampling = {"temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1,
                "presence_penalty": 0.2, "max_tokens": 6, "seed": 7}
    assert {name: body[name] for name in sampling} == sampling
    assert re.match(r"\d+ tokens? · [\d.,]+ tokens/s", page.locator(".figures").last.inner_text())

    page.reload()
    page.get_by_role("button", name="Settings (changed)").click()
    assert page.get_by_label("System prompt").input_value() == "Answer in one word."
    page.get_by_role("button", name="Reset").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Regenerate").click()
    page.wait_for_function("() => document.body.classList.contains('answering')")
    assert "temperature" not in bodies[1] and "max_tokens" not in bodies[1]


def test_a_message_is_edited_and_the_rest_is_asked_again(smollm2, open_page):
    page = open_page(smollm2)
    bodies = request_bodies(page)
    set_settings(page, Temperature="0", Most_tokens="4")
    for text in ("First question", "Second question"):
        send(page, text)
        wait_for_text(page)
        wait_until_done(page)
    assert [m["role"] for m in bodies[1]["messages"]] == ["user", "assistant", "user"]
    page.get_by_text("First question", exact=True).last.hover()
    page.locator(".message.user").first.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Edit the message").fill("Another question")
    page.get_by_role("button", name="Send again").click()
    wait_for_text(page)
    wait_until_done(page)
    assert bodies[2]["messages"] == [{"role": "user", "content": "Another question"}]
    assert page.locator(".message").count() == 2

    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.press("ArrowUp")  # in an empty box: edit the last message
    editor = page.get_by_role("textbox", name="Edit the message")
    assert editor.input_value() == "Another question"
    page.keyboard.press("Escape")
    assert editor.count() == 0
    assert page.locator(".message").count() == 2


def test_conversations_are_kept_found_and_deleted(smollm2, open_page):
    page = open_page(smollm2)
    set_settings(page, Most_tokens="3")
    titles = [f"Question {i}" for i in range(1, 10)]
    page.evaluate("""titles => titles.forEach((title, i) => localStorage.setItem(`strata.conversation.${i}`,
        JSON.stringify({id: String(i), title, time: i, messages: [{role: 'user', content: title}]})))""", titles[:7])
    for title in titles[7:]:
        page.keyboard.press("Control+k")
        send(page, title)
        wait_for_text(page)
        wait_until_done(page)
    page.reload()
    listed = page.locator("#conversations .open")
    assert listed.all_inner_texts() == titles[::-1], "the newest first"
    assert page.locator(".message.user").inner_text().startswith("Question 9")
    page.get_by_role("searchbox", name="Find a conversation").fill("question 4")
    assert listed.all_inner_texts() == ["Question 4"]
    listed.first.click()
    assert page.locator(".message.user").inner_text().startswith("Question 4")

    page.get_by_role("searchbox", name="Find a conversation").fill("")
    page.get_by_role("button", name="Delete: Question 4").click()
    assert "Question 4" not in listed.all_inner_texts()
    page.get_by_role("button", name="Undo").click()
    assert "Question 4" in listed.all_inner_texts()
    page.get_by_role("button", name="Delete: Question 4").click()
    page.reload()
    assert sorted(listed.all_inner_texts()) == sorted(set(titles) - {"Question 4"})


def test_html_of_a_model_stays_text_and_a_key_is_asked_for(html_server, open_page):
    page = open_page(html_server)
    page.wait_for_selector("#notice:has-text('API key')")
    send(page, "hello")
    page.wait_for_selector(".message .error:has-text('API key')")
    page.watch.expect("401")
    enter_key(page)
    page.get_by_role("button", name="Try again").click()
    wait_until_done(page)
    page.wait_for_selector(".message .figures:has-text('5 tokens')")
    assert last_text(page) == "<img src=x onerror=alert(1)>"
    assert page.locator(".body img").count() == 0
    page.reload()
    assert last_text(page) == "<img src=x onerror=alert(1)>"
    page.wait_for_timeout(100)  # a picture's error would come a moment later; open_page looks at the faults


MARKDOWN = """# Title

[good](https://example.org/x) [bad](javascript:alert(1)) [data](data:text/html,hello) [here](/metrics)
![picture](https://example.org/picture.png) <b onclick="alert(1)">bold</b> https://example.org/auto

<script>alert(1)</script>
<svg onload=alert(1)>

- [x] done

3. three

| name | size |
|:--|--:|
| a | 12 |

```python
print("<b>1</b>")  # note
```
"""


def test_markdown_is_shown_and_cannot_act(html_server, open_page):
    page = open_page(html_server)
    page.wait_for_selector("#notice:has-text('API key')")
    page.watch.expect("401")
    page.evaluate("""async (text) => {
      const {render} = await import('/web/markdown.js');
      const target = document.createElement('div');
      target.id = 'sample';
      document.querySelector('#column').append(target);
      for (let n = 1; n <= text.length; n += 7) render(target, text.slice(0, n));  // as it would stream
      const kept = target.firstElementChild;
      render(target, text);
      if (kept !== target.firstElementChild) throw Error('a finished block was made again');
    }""", MARKDOWN)
    sample = page.locator("#sample")
    links = sample.locator("a").evaluate_all("all => all.map((a) => [a.getAttribute('href'), a.rel])")
    assert [href for href, _ in links] == ["https://example.org/x", "https://example.org/picture.png", "https://example.org/auto"]
    assert all("noopener" in rel for _, rel in links)
    text = sample.inner_text()
    for shown in ('<b onclick="alert(1)">bold</b>', "<script>alert(1)</script>", "<svg onload=alert(1)>", "bad", "here", "☑ done"):
        assert shown in text
    assert sample.locator("script, svg:not(.glyph), img, b, input, [onclick], [onload]").count() == 0
    assert sample.locator("pre code").text_content() == 'print("<b>1</b>")  # note\n'
    assert sample.locator("pre .string").text_content() == '"<b>1</b>"'
    assert sample.locator("ol").get_attribute("start") == "3"
    assert sample.locator("td").last.evaluate("e => getComputedStyle(e).textAlign") == "right"
    page.wait_for_timeout(100)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(html_server, open_page, scheme):
    page = open_page(html_server, color_scheme=scheme)
    enter_key(page)
    send(page, "hello")
    page.wait_for_selector(".message .figures:has-text('tokens')")
    page.evaluate("""async (text) => {
      const {render} = await import('/web/markdown.js');
      render(document.querySelector('.message.assistant .body'), text);
    }""", MARKDOWN)
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= LIGHTEST_CONTRAST, worst
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Settings").click()
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= LIGHTEST_CONTRAST, worst
    page.get_by_text("Light" if scheme == "dark" else "Dark", exact=True).click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground, "the choice overrules the system"


def test_phone_width(html_server, open_page):
    page = open_page(html_server, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    enter_key(page)
    message = page.get_by_role("textbox", name="Message")
    message.fill("w" * 80)
    message.press("Enter")  # here Enter is a new line
    assert page.locator(".message").count() == 0
    page.get_by_role("button", name="Send").click()
    page.wait_for_selector(".message .figures:has-text('tokens')")
    page.evaluate("""async () => {
      const {render} = await import('/web/markdown.js');
      const wide = 'x'.repeat(400);
      render(document.querySelector('.message.assistant .body'), `${wide} \\`${wide}\\`\\n\\n\\`\\`\\`\\n${wide}\\n\\`\\`\\`\\n\\n|a|b|\\n|--|--|\\n|${wide}|1|`);
    }""")
    wider = "document.documentElement.scrollWidth > innerWidth || document.querySelector('#log').scrollWidth > document.querySelector('#log').clientWidth"
    assert not page.evaluate(wider)
    page.get_by_role("button", name="Conversations").click()
    assert page.locator(".open").first.is_visible()
    assert page.evaluate("document.activeElement.id") == "close-sidebar"
    page.keyboard.press("Escape")
    page.wait_for_selector("#sidebar", state="hidden")
    assert page.evaluate("document.activeElement.id") == "open-sidebar"
    page.get_by_role("button", name="Settings").click()
    assert not page.evaluate(wider)


def test_a_server_that_is_gone_is_told_and_comes_back(smollm2, open_page):
    page = open_page(smollm2)
    set_settings(page, Most_tokens="3")
    page.context.set_offline(True)
    send(page, "Are you there?")
    page.wait_for_selector(".message .error:has-text('cannot be reached')")
    page.wait_for_selector("#notice:has-text('cannot be reached')")
    page.context.set_offline(False)
    page.wait_for_selector("#notice", state="hidden")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".message .figures:has-text('tokens/s')")
    wait_until_done(page)
    assert page.locator(".error:visible").count() == 0
    page.watch.expect("ERR_INTERNET_DISCONNECTED")


def test_too_long_a_conversation_offers_a_new_one(html_server, open_page):
    page = open_page(html_server)
    enter_key(page)
    send(page, "many words " * 60)
    page.wait_for_selector(".message .error:has-text('maximum context length')")
    page.locator(".error").get_by_role("button", name="New conversation").click()
    assert page.get_by_role("heading", name="What would you like to know?").is_visible()
    page.watch.expect("400")


def test_everything_has_a_name_and_answers_are_spoken_once(html_server, open_page):
    page = open_page(html_server)
    enter_key(page)
    page.evaluate("""() => {
      window.spoken = [];
      const announcer = document.querySelector('#announcer');
      new MutationObserver(() => window.spoken.push(announcer.textContent)).observe(announcer, {childList: true});
    }""")
    send(page, "hello")
    page.wait_for_selector(".message .figures:has-text('tokens/s')")
    wait_until_done(page)
    page.wait_for_function("() => window.spoken.length >= 2")
    assert page.evaluate("window.spoken") == ["Answering", "<img src=x onerror=alert(1)>"]
    assert page.locator("#log[aria-live], #log [aria-live]").count() == 0
    nameless = page.evaluate("""() => [...document.querySelectorAll('button, input, select, textarea')]
      .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length) && !e.hidden).map((e) => e.outerHTML)""")
    assert nameless == []


DRAWN = "e => { const c = e.getContext('2d').getImageData(0, 0, e.width, e.height).data; return c.some((v, i) => i % 4 === 3 && v > 0); }"
TILE = "[...document.querySelectorAll('#engine dt')].find((e) => e.textContent === '{}').nextSibling.textContent"


def tile(page, name):
    return page.evaluate(TILE.format(name))


def wait_for_tile(page, name, test):
    """test: of JavaScript, after the tile's text, such as === '1'."""
    page.wait_for_function(f"() => document.querySelector('#engine dt') && {TILE.format(name)} {test}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_engine_is_watched(smollm2, open_page, scheme):
    page = open_page(smollm2, color_scheme=scheme)
    set_settings(page, Temperature="0")
    send(page, LONG_TASK)
    wait_for_text(page)
    page.get_by_role("button", name="Engine").click()
    engine = page.get_by_role("region", name="Engine")
    wait_for_tile(page, "Running", "=== '1'")
    used, total = (int(part.replace(",", "")) for part in tile(page, "Pages in use").split("/"))
    assert 0 < used < total and tile(page, "Fragmentation").endswith("%")
    timeline = engine.locator("canvas").first
    steps = int(timeline.get_attribute("aria-label").split()[0])
    assert steps > 0 and tile(page, "Waiting") == "0"
    page.wait_for_function("n => parseInt(document.querySelector('#engine canvas').getAttribute('aria-label')) > n", arg=steps)
    wait_for_tile(page, "Tokens/s", "> '0'")
    wait_for_tile(page, "Cores busy", "!== '–'")
    for canvas in engine.locator("canvas").all():
        assert canvas.get_attribute("aria-label") and canvas.evaluate(DRAWN)
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= LIGHTEST_CONTRAST, worst
    assert not page.locator("#composer").is_visible()
    page.keyboard.press("Escape")  # stops the answer here, too
    wait_for_tile(page, "Running", "=== '0'")
    page.get_by_role("button", name="Engine").click()
    assert page.locator("#composer").is_visible() and not engine.is_visible()
    assert last_text(page)


def test_the_engine_on_a_phone_and_with_a_key(html_server, open_page):
    page = open_page(html_server, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    enter_key(page)
    page.get_by_role("button", name="Engine").click()
    wait_for_tile(page, "Running", "=== '0'")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth || document.querySelector('#engine').scrollWidth > "
                             "document.querySelector('#engine').clientWidth")
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name="New conversation").click()
    assert not page.locator("#engine").is_visible(), "a conversation takes its place"
