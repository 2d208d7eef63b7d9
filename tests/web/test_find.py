"""The find dialog: what it finds, and by which keys it is opened."""


def find(page, text, key="/"):
    page.do("press", key=key)
    page.do("wait", at="dialog input")
    page.do("type", text=text)


def first(page, part):
    page.do("waitfor", js=f"document.querySelector('#found [role=option]')?.textContent.includes({part!r})")


def test_a_stage_leads_to_its_newest_job(page, world):
    page.go("/data")
    find(page, "deco")
    first(page, "decodestage of street")
    page.do("press", key="Enter")
    page.do("waitfor", js=f"location.pathname === '/jobs/default/decode/{world.job('decode')['run']}'")


def test_a_job_is_found_by_its_name(page, world):
    run = world.job("evaluate")["run"]
    page.go("/")
    find(page, f"evaluate@{run[:8]}", key="Control+k")
    first(page, f"evaluate@{run[:8]}job of default, failure")
    page.do("press", key="Enter")
    page.do("waitfor", js=f"location.pathname === '/jobs/default/evaluate/{run}'")


def test_enter_before_the_answer_opens_the_first(page):
    page.go("/runs")
    find(page, "photos")
    page.do("press", key="Enter")
    page.do("waitfor", js="location.pathname === '/data/default/photos'")


def test_what_is_not_there_is_said(page):
    page.go("/")
    find(page, "<img src=x onerror=alert(1)>")
    page.do("waitfor", js="document.querySelector('dialog').textContent.includes('Nothing has “<img src=x onerror=alert(1)>” in its name.')")
