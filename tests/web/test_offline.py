"""While the daemon does not answer: the page stays, says so, and what would ask the daemon to do something is off."""
import pytest

WHY = "The daemon does not answer: this works again as soon as it does."


@pytest.fixture(autouse=True)
def answers_again(page):
    yield
    page.do("unblock", at="**/api/v1/events?since=*")


def test_actions_are_off_while_the_daemon_does_not_answer(page, world):
    run = world.job("evaluate")["run"]
    page.do("block", at="**/api/v1/events?since=*")
    page.go(f"/runs/{run}")
    page.do("wait", at=".banner")
    assert "No answer from the daemon" in page.do("text", at=".banner")
    off = page.js("[...document.querySelectorAll('main .head .acts button')].map((b) => [b.getAttribute('aria-disabled'), b.title, b.getAttribute('aria-description'), b.disabled])")
    assert off and all(one == ["true", WHY, WHY, False] for one in off), off
    page.js("document.querySelector('main .head .acts button').focus()")
    page.do("press", key="Enter")
    assert page.js("document.activeElement.closest('.acts') !== null && document.querySelector('dialog') === null")
    assert page.do("axe") == []
    page.do("unblock", at="**/api/v1/events?since=*")
    page.do("wait", at=".banner", state="detached")
    assert page.js("document.querySelectorAll('main .head .acts button[aria-disabled]').length") == 0
    page.do("press", key="Enter")
    page.do("wait", at="dialog")


def test_a_question_that_is_open_is_off_too(page, world):
    page.do("hold", at="**/api/v1/events?since=*")  # it is not known yet that the daemon does not answer: the button is on
    page.go("/pipelines/default/street")
    page.do("click", at="button:has-text('Run…')")
    page.do("block", at="**/api/v1/events?since=*")
    page.do("wait", at="dialog button.main[aria-disabled]")
    assert WHY in page.do("text", at="dialog")
    page.js("document.querySelector('dialog button.main').click()")
    assert page.path == "/pipelines/default/street"
    page.do("press", key="Escape")
    page.do("wait", at="dialog", state="detached")
    page.do("unblock", at="**/api/v1/events?since=*")
    page.do("wait", at=".banner", state="detached")
