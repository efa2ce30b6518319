"""A real browser, and the dashboard's server as users start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from kafka_s3_testing.services.process import free_ports
from tests.support.repository import ROOT

SHOTS = ROOT / "artifacts" / "dashboard"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--lang=en-US",
    "--force-prefers-reduced-motion",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--js-flags=--no-opt",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
)
PROBES = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit finds its server by asking at every level of the address: the 404 of the deeper ones are its way, not ours."""
DRAWN = """
const app = document.querySelector('[data-testid=stApp]');
return app && app.dataset.testScriptState === 'notRunning' && !!document.querySelector('h1')
  && !document.querySelector('[data-testid=stSkeleton], [data-stale=true]');
"""


GRID_OF = """
const grid = name => [...document.querySelectorAll('[data-testid=stDataFrame]')].find(
  one => [...one.querySelectorAll('button[aria-label]')].some(button => button.ariaLabel.endsWith(': ' + name)));
"""
GRID = f"""{GRID_OF}
const found = grid(arguments[0])?.querySelector('canvas table');
if (!found) return [];
const titles = [...found.querySelectorAll('th')].map(one => one.textContent);
return [...found.querySelectorAll('tbody tr')].map(
  row => Object.fromEntries([...row.querySelectorAll('td')].map((cell, at) => [titles[at], cell.textContent])));
"""
BOX_PX, ROW_PX = 18, 35
"""Where the box of a row is, and how high rows are."""


def require_chromium() -> tuple[str, str]:
    """Chromium and its driver. Without them the test is skipped, and in CI it fails."""
    found = [
        next((path for name in names if (path := shutil.which(name))), None)
        for names in (("chromium", "chromium-browser"), ("chromedriver",))
    ]
    if None in found:
        reason = "Chromium and its driver are needed: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return str(found[0]), str(found[1])


class Browser:
    """One window on one server."""

    def __init__(self, driver: Any, url: str, downloads: Path) -> None:
        self.driver, self.url, self.downloads = driver, url, downloads

    def visit(self, page: str = "overview", **address: str) -> None:
        """Opens a page and waits until it is drawn; blank is the page of all sinks."""
        query = "&".join(f"{name}={urllib.request.quote(value)}" for name, value in address.items())  # type: ignore[attr-defined]
        self.driver.get(f"{self.url}/{page}?{query}")
        self.drawn(page)

    def drawn(self, page: str) -> None:
        """Waits until the page is."""
        self.until(lambda: bool(self.driver.execute_script(DRAWN)), what=f"page {page!r} drawn")

    def until(self, holds: Callable[[], bool], *, what: str, seconds: float = 60) -> None:
        """Waits until it holds; elements that are drawn anew meanwhile are asked again."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if holds():
                    return
            except StaleElementReferenceException:
                pass
            assert time.monotonic() < deadline, f"{what}; the page says: {self.text()[:2000]}"
            time.sleep(0.1)

    def press(self, css: str, place: int = 0) -> None:
        """Clicks the element once it can be clicked: a page that is being drawn has elements before it shows them."""

        def pressed() -> bool:
            found = self.find(css)
            if len(found) <= place or not found[place].is_displayed():
                return False
            try:
                found[place].click()
            except (ElementClickInterceptedException, ElementNotInteractableException):
                return False
            return True

        self.until(pressed, what=f"{css} can be clicked")

    def unfold(self, title: str) -> None:
        """Opens the box of this title; a click that a page drawn again has swallowed is made again."""
        css = "[data-testid=stExpander] details"

        def place() -> int:
            return next((at for at, one in enumerate(self.find(css)) if title in one.text), -1)

        def opened() -> bool:
            at = place()
            if at < 0:
                return False
            if self.find(css)[at].get_attribute("open") is not None:
                return True
            summary = self.find(f"{css} > summary")[at]
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", summary)
            self.press(f"{css} > summary", at)
            time.sleep(1)  # as long as the box takes to open, so that it is not closed again
            return False

        self.until(opened, what=f"the box {title!r} open")

    def text(self) -> str:
        """All text of the page."""
        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    def figures(self) -> dict[str, str]:
        """The figures, by their labels."""
        script = """return Array.from(document.querySelectorAll('[data-testid=stMetric]')).map(one => [
          one.querySelector('[data-testid=stMetricLabel]').innerText.trim(),
          one.querySelector('[data-testid=stMetricValue]').innerText.trim()])"""
        return dict(self.driver.execute_script(script))

    def grid(self, name: str) -> list[dict[str, str]]:
        """The rows of the table of this name that are on the screen, as a screen reader gets them; none where there is no such table."""
        return list(self.driver.execute_script(GRID, name) or [])

    def pick(self, name: str, row: int) -> None:
        """Chooses a row of the table of this name, by its box."""

        def picked() -> bool:
            canvas = self.driver.execute_script(f"{GRID_OF} return grid(arguments[0])?.querySelector('canvas')", name)
            if canvas is None:
                return False
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
            half = (canvas.size["width"] / 2, canvas.size["height"] / 2)
            at = (BOX_PX - half[0], ROW_PX * (row + 1.5) - half[1])
            ActionChains(self.driver).move_to_element_with_offset(canvas, *map(round, at)).click().perform()
            return True

        self.until(picked, what=f"row {row} of {name!r}")

    def troubles(self) -> list[str]:
        """What the console complains of since the last call."""
        found = [(entry["level"], entry["message"]) for entry in self.driver.get_log("browser")]
        return [
            text
            for level, text in found
            if level in ("SEVERE", "WARNING") and not any(probe in text for probe in PROBES)
        ]

    def shot(self, name: str) -> None:
        """A picture of the whole page, kept as output of CI."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        height = self.driver.execute_script(
            "return document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight"
        )
        width = self.driver.execute_script("return innerWidth")
        self.screen(width, min(max(height, 700), 4000))
        time.sleep(0.4)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def screen(self, width: int, height: int, *, phone: str = "no") -> None:
        """The size of the window, without its frame."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone == "yes"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, scheme: str) -> None:
        """What the user's system prefers: light or dark."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )

    def find(self, css: str) -> list[Any]:
        """Elements."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, css))


@contextmanager
def chromium(url: str, downloads: Path, *, recorded: bool = True) -> Iterator[Browser]:
    """A browser that asks nobody but the server; `recorded` keeps what it asks for and complains of, which takes its time."""
    binary, driver = require_chromium()
    options = Options()
    options.binary_location = binary
    for flag in (*FLAGS, "--window-size=1360,1000"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    if recorded:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        browser = Browser(made, url, downloads)
        browser.screen(1360, 1000)
        yield browser
    finally:
        made.quit()


def hosts(browser: Browser) -> set[str]:
    """Whom the browser has asked for anything."""
    found = set()
    for entry in browser.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if url.startswith("http"):
                found.add(url.split("/")[2])
    return found


@contextmanager
def served(arguments: list[str], environment: dict[str, str], log: Path, *, port: int | None = None) -> Iterator[str]:
    """`kafka-s3 dashboard ...` as a process; its address."""
    port = port or free_ports(1)[0]
    command = [sys.executable, "-m", "kafka_s3", "dashboard", *arguments, "--port", str(port)]
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "bundle"), str(ROOT)])
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
