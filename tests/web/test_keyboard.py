"""The flows by keyboard alone: the focus is seen at each step, and after a page change the heading has it."""
import json

SEEN = """(() => {
  const at = document.activeElement;
  if (!at || at === document.body || !at.matches(":focus-visible")) return false;
  // a field with a sign in it: what is around both has the outline
  const outlined = (one) => getComputedStyle(one).outlineStyle !== "none";
  return at instanceof SVGElement || outlined(at) || (at.tagName === "INPUT" && outlined(at.parentElement));
})()"""
NAME = "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent || document.activeElement.value || '').trim()"


class Keys:
    """Presses keys and looks at the focus after each."""

    def __init__(self, page):
        self.page = page

    def press(self, *keys):
        for key in keys:
            self.page.do("press", key=key)
        return self

    def press_at_once(self, key, *then):
        """Keys that belong together only if they come soon after each other."""
        self.page.do("press", key=key, then=then)
        return self

    def tab_to(self, part, most=120):
        for _ in range(most):
            self.press("Tab")
            assert self.page.js(SEEN), f"the focus is not seen on {self.page.js('document.activeElement.outerHTML.slice(0, 200)')}"
            if part in self.page.js(NAME):
                return self
        raise AssertionError(f"Tab does not come to {part!r}")

    def tab_to_tag(self, tag, most=40):
        for _ in range(most):
            self.press("Tab")
            if self.page.js("document.activeElement.tagName") == tag:
                return self
        raise AssertionError(f"Tab does not come to a {tag}; the page shows {self.page.js('document.body.innerText')!r}")

    def enter(self, path):
        """Follows what has the focus; the heading of the next page has it then."""
        self.press("Enter")
        self.page.do("waitfor", js=f"location.pathname.startsWith({json.dumps(path)})")
        self.page.do("settled")
        self.page.do("waitfor", js="document.activeElement.tagName === 'H1'")
        assert self.page.js(SEEN)
        return self


def test_the_skip_link_leads_past_the_navigation(page):
    page.go("/")
    keys = Keys(page).press("Tab")
    assert page.js(NAME) == "Skip to the content" and page.js(SEEN)
    keys.press("Enter")
    assert page.js("document.activeElement.id") == "main"
    keys.press("Tab")
    assert page.js("document.querySelector('main').contains(document.activeElement)")


def test_from_the_start_to_a_failed_datum_its_log_and_its_command(page, world):
    run = world.job("decode")["run"]
    page.go("/")
    keys = Keys(page).press_at_once("g", "r")
    page.do("waitfor", js="location.pathname === '/runs'")
    page.do("waitfor", js="document.activeElement.tagName === 'H1'")
    page.do("waitfor", js=f"document.querySelector('a[href$=\"/runs/{run}\"]') !== null")
    for _ in range(40):
        keys.press("j")
        if page.js("document.activeElement.getAttribute('href') ?? ''").endswith(run):
            break
    assert page.js(SEEN)
    keys.enter(f"/runs/{run}")
    keys.tab_to("decode").enter(f"/jobs/default/decode/{run}")
    page.do("wait", at=".cmd")
    page.do("waitfor", js="document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length > 1")  # n goes to the next of them
    before = page.js("document.querySelector('.cmd').textContent")
    keys.press("n")
    page.do("waitfor", js=f"document.querySelector('.cmd') && document.querySelector('.cmd').textContent !== {json.dumps(before)}")
    assert "pipelinectl try decode --at" in page.js("document.querySelector('.cmd').textContent")
    keys.tab_to("Copy")
    page.js("scrollTo(0, 0)")
    page.do("eval", js="document.querySelector('main h1').focus()")
    keys.tab_to("Log").enter(f"/jobs/default/decode/{run}/log")


def test_from_the_start_to_a_file_and_why_it_is_there(page, world):
    page.go("/")
    keys = Keys(page).press_at_once("g", "d")
    page.do("waitfor", js="location.pathname === '/data' && document.activeElement.tagName === 'H1'")
    keys.press("/")
    page.do("wait", at="dialog input")
    page.do("type", text="infer@master:/b1/predictions.csv")
    page.do("waitfor", js="document.querySelector('#found [role=option]')?.textContent.includes('file')")
    keys.enter("/data/default/infer/master/-/")
    keys.tab_to("all of it").enter("/why/default/infer/")


def test_from_the_start_to_the_spec_checker(page):
    page.go("/")
    keys = Keys(page).press_at_once("g", "p")
    page.do("waitfor", js="location.pathname === '/pipelines' && document.activeElement.tagName === 'H1'")
    page.do("settled")
    keys.tab_to("Check a spec").enter("/check")
    keys.tab_to_tag("TEXTAREA")
    page.do("type", text='{"pipeline": "<b>p</b>", "stages": [\n{"name": "a", "run": ["true"], "input": {"repo": "photos"}, "on_error": "retry"}]}')
    keys.press("Control+Enter")
    page.do("waitfor", js="/mistake/.test(document.querySelector('h1').textContent)")
    page.picture("check-mistakes")
    place = page.js("[...document.querySelectorAll('main button[data-row]')].find((one) => one.textContent.startsWith('2:')).textContent")
    keys.tab_to("Line 2, column")
    keys.press("Enter")
    page.do("waitfor", js="document.activeElement.tagName === 'TEXTAREA'")
    at = page.js("document.activeElement.value.slice(0, document.activeElement.selectionStart).split('\\n').length")
    assert at == 2, place
    page.js("document.activeElement.select()")
    page.do("type", text='{"pipeline": "p9", "stages": [{"name": "a9", "run": ["true"], "input": {"repo": "photos", "glob": "/*/*"}}]}')
    keys.press("Control+Enter")
    page.do("waitfor", js="document.querySelector('h1').textContent === 'The spec is good: it would be version 1 of p9.'")
    row = page.js("document.querySelector('main table').innerText")
    assert "15" in row and "photos=/lisbon/" in row, row
    page.picture("check-good")
    page.go("/pipelines")
    assert "p9" not in page.js("document.querySelector('main').textContent")  # nothing is created
