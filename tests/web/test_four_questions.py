"""The four questions that a newcomer who ran the demo answers from the start page in three clicks each. The daemon has the digits demo (conftest.py)."""
import pytest

MOST = 3


class Clicks:
    """Clicks on the page from the start page on, counted."""

    def __init__(self, page):
        self.page, self.n = page, 0
        page.go("/")

    def __call__(self, at):
        self.n += 1
        assert self.n <= MOST, f"click {self.n} at {at}"
        self.page.do("click", at=at)
        self.page.do("settled")

    def sees(self, js):
        self.page.do("waitfor", js=js)


@pytest.fixture
def click(page):
    return Clicks(page)


# ---- Why did `infer` run again?


def test_why_did_infer_run_again(click, world):
    click("nav >> text=Runs")
    click(f"a[href$='/runs/{world.commits('digits')[0]}']")
    click.sees("/1 file.*train.*model.npz/.test([...document.querySelectorAll('tr')].find((row) => row.textContent.startsWith('infer'))?.textContent)")


# ---- Which files and which code made this prediction?


def test_which_files_and_which_code_made_this_prediction(click):
    click("a[aria-label*='repo infer']")
    click("main td a:has-text('b1')")
    click("main td a:has-text('predictions.csv')")
    click.sees("document.querySelector('h1')?.textContent.includes('180 rows, made by infer from b1.csv and model.npz')")
    click.sees("['digits:/test/b1.csv', 'train:/model.npz', 'code ', 'git '].every((words) => document.querySelector('.why')?.textContent.includes(words))")


def test_which_files_and_which_code_made_these_predictions_as_a_graph(click, page):
    click("a[aria-label*='repo infer']")
    click("main >> text=Provenance")
    click.sees("[...document.querySelectorAll('svg a[data-node]')].length >= 4")
    shown = page.js("document.querySelector('main').textContent")
    assert "train" in shown and "version 1 of digits" in shown and "code " in shown and "git " in shown


# ---- What did the GPU do?


# ---- What changed between the last two datasets?
