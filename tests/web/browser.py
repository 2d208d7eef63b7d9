"""A headless Chromium that a test drives, through driver.mjs."""
import json
import os
import pathlib
import shutil
import subprocess
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
SHOTS = TOP / "build" / "web-shots"
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}


class BrowserError(Exception):
    """What the browser said when it could not do something."""


class Browser:
    def __init__(self):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        node = os.environ.get("PL_WEB_NODE") or shutil.which("node")
        packages = os.environ.get("PL_WEB_TESTS", str(HERE))
        self.process = subprocess.Popen([node, str(HERE / "driver.mjs"), chromium, packages], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base = ""

    def do(self, what, **more):
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise BrowserError(f"the browser ended at {what} {more}")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{what} {more}: {answer['error']}")
        return answer["ok"]

    def open(self, daemon, size="wide", theme="light", signed_in=True):
        """A fresh browser with its own cookies, signed in by a one-time link."""
        width, height = SIZES[size] if isinstance(size, str) else size
        self.do("open", width=width, height=height, theme=theme)
        self.base = daemon.url.rstrip("/")
        if signed_in:
            link = daemon.http("POST", "/api/v1/login-links")["url"]
            self.do("goto", url=self.base + "/login?" + urllib.parse.urlsplit(link).query)
            self.do("settled")
        return self

    def go(self, path):
        status = self.do("goto", url=self.base + path)["status"]
        self.do("settled")
        return status

    def picture(self, name, whole=False):
        SHOTS.mkdir(parents=True, exist_ok=True)
        return self.do("picture", file=str(SHOTS / f"{name}.png"), whole=whole)

    def js(self, expression):
        return self.do("eval", js=expression)

    @property
    def path(self):
        return self.do("url").removeprefix(self.base)

    @property
    def headline(self):
        return self.js("document.querySelector('h1').textContent")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
