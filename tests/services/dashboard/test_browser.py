"""The whole dashboard as a person meets it: a real sink has filled the bucket, a real Chromium shows it."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.support.browser import Browser, chromium, hosts, require_chromium, served
from tests.support.bucket import Bucket
from tests.support.configurations import PARTITIONER
from tests.support.filled import FORMULA, HOUR_MS, INJECTION
from tests.support.kafka import Given, document, produce
from tests.support.numbers import numbers
from tests.support.surroundings import Surroundings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3

LINKS = "[data-testid=stPageLink] a"
PAGES = {
    "": "Fleet", "overview": "Overview", "rotation": "File rotation", "dead-letters": "Dead letters", "layout": "Partition layout",
    "tables": "Tables", "commits": "Commits", "configuration": "Configuration",
}  # fmt: skip
BY_DAY = ("", "overview", "layout", "dead-letters")
NAMELESS = """
const shown = one => one.getClientRects().length > 0;
const named = one => one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.title || one.innerText.trim()
  || (one.labels && one.labels.length) || one.closest('label');
return Array.from(document.querySelectorAll('input, button, a, [role=combobox], [role=button]'))
  .filter(shown).filter(one => !named(one)).map(one => one.outerHTML.slice(0, 300));
"""


@pytest.fixture(scope="module")
def real(
    kafka: EmbeddedKafka, s3: EmbeddedS3, spark: SparkSession
) -> Iterator[tuple[Surroundings, str, dict[str, str]]]:
    """A sink that ran twice on real Kafka, Spark and S3: hours, a script and a formula as dead letters."""
    require_chromium()
    bucket, topic = f"bucket-{next(numbers)}", f"shop-{next(numbers)}"
    s3.create_bucket(bucket)
    kafka.create_topic(topic, 2)
    here = Surroundings(kafka, s3, Bucket(s3.endpoint_url, bucket), spark)
    config = here.config(topic, **{
        "flush.size": "5", "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner",
        "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
        "partition.duration.ms": str(HOUR_MS), "locale": "en", "timezone": "UTC", "timestamp.extractor": "Record",
        "errors.tolerance": "all",
    })  # fmt: skip
    start = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    records = [
        Given(document(n=number), partition=number % 2, timestamp_ms=start + number * HOUR_MS // 10, headers=(("source", b"test"),))
        for number in range(40)
    ]  # fmt: skip
    bad = [Given(INJECTION, 0, start, key=FORMULA), Given(FORMULA, 1, start)]
    produce(here.servers, topic, [*records[:25], *bad])
    here.drain(config)
    produce(here.servers, topic, records[25:])
    here.drain(config)
    yield here, topic, config
    here.bucket.close()


@pytest.fixture(scope="module")
def browser(
    real: tuple[Surroundings, str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    _here, _, config = real
    folder = tmp_path_factory.mktemp("dashboard")
    file = folder / "sink.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    with (
        served([str(file)], {}, folder / "server.log") as url,
        chromium(url, folder) as made,
    ):
        yield made
    assert "Traceback" not in (folder / "server.log").read_text()


def entries(real: tuple[Surroundings, str, dict[str, str]]) -> list[dict[str, Any]]:
    here, _, config = real
    return here.bucket.entries(config["name"])


@pytest.mark.parametrize(
    "page", [one if one in BY_DAY else pytest.param(one, marks=pytest.mark.nightly) for one in PAGES]
)
def test_every_page_opens_without_a_complaint_and_asks_nobody_but_its_server(browser: Browser, page: str) -> None:
    hosts(browser)
    more = {"dead-letters": {"letters": "true"}, "commits": {"entry": "2"}}.get(page, {})
    browser.screen(1360, 1000)
    browser.visit(page, **more)
    browser.until(lambda: PAGES[page] in browser.text(), what="the title")
    time.sleep(0.5)  # charts are drawn last
    assert browser.troubles() == []
    assert hosts(browser) == {browser.url.removeprefix("http://")}
    assert browser.driver.execute_script(NAMELESS) == []
    assert browser.driver.execute_script("return document.documentElement.lang") == "en"
    browser.shot(page or "fleet")


def test_the_figures_are_those_of_the_commit_log(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    browser.visit()
    found, log = browser.figures(), entries(real)
    totals = {name: sum(entry["totals"][name] for entry in log) for name in ("read", "written", "dead_letters")}
    assert totals == {"read": 42, "written": 40, "dead_letters": 2}
    assert found["Records written"] == "40"
    assert found["Dead letters"] == "2"
    files = str(sum(entry["totals"]["files"] for entry in log))
    assert found["Files"] == files
    browser.visit("rotation")
    assert browser.figures()["Files"] == files


def test_a_filter_is_set_by_keyboard_and_goes_into_the_address(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    _, topic, _ = real
    browser.visit()
    (field,) = browser.find("[data-testid=stMultiSelect] input")
    field.send_keys(topic[:5])
    browser.until(
        lambda: topic in "".join(one.text for one in browser.find("[role=listbox]")), what="the topic on offer"
    )
    browser.find("[data-testid=stMultiSelect] input")[0].send_keys(Keys.ENTER)
    browser.until(lambda: f"topics={topic}" in browser.driver.current_url, what="the topic in the address")
    browser.visit(topics=topic)
    assert browser.figures()["Records written"] == "40"
    browser.visit(range="from - to", to="2020-01-01T00:00")
    browser.until(lambda: "Nothing was committed in this time" in browser.text(), what="an empty time")


def test_a_box_has_its_content_once_it_is_open(browser: Browser) -> None:
    browser.visit(refresh="off")
    before = len(browser.find("[data-testid=stDataFrame]"))
    browser.press("[data-testid=stExpander] summary")
    browser.until(lambda: len(browser.find("[data-testid=stDataFrame]")) == before + 1, what="the topic-partitions")
    browser.press("[data-testid=stExpander] summary")
    browser.until(lambda: len(browser.find("[data-testid=stDataFrame]")) == before, what="the box closed")


@pytest.mark.nightly
def test_another_page_keeps_what_was_chosen_in_this_tab_and_in_another_one(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    here, _, config = real
    title = f"{config['name']} \u00b7 {here.bucket.name} \u00b7 kafka-s3"
    browser.visit(sink=config["name"], zone="Asia/Kolkata")
    assert browser.driver.title == title
    assert len(browser.find(LINKS)) == len(PAGES)
    for place in (2, 1, 2):
        browser.press(LINKS, place)
        heading = f"{list(PAGES.values())[place]} \u00b7 {config['name']}"
        browser.until(lambda heading=heading: heading in browser.text(), what=heading)  # type: ignore[misc]
    assert browser.driver.current_url.count("zone=Asia") == 1
    assert browser.driver.current_url.count("sink=") < 2

    first = browser.driver.current_window_handle
    ActionChains(browser.driver).key_down(Keys.CONTROL).click(browser.find(LINKS)[1]).key_up(Keys.CONTROL).perform()
    browser.until(lambda: len(browser.driver.window_handles) == 2, what="another tab")
    assert heading in browser.text()
    browser.driver.switch_to.window(browser.driver.window_handles[-1])
    try:
        browser.until(lambda: f"{PAGES['overview']} \u00b7 {config['name']}" in browser.text(), what="its page")
        assert browser.driver.title == title
        assert browser.driver.current_url.count("zone=Asia") == 1
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(first)


def test_a_script_in_a_dead_letter_stays_text(browser: Browser, real: tuple[Surroundings, str, dict[str, str]]) -> None:
    letter = next(one for one in real[0].bucket.dead_letters(real[2]["name"]) if one["key"])
    browser.visit("dead-letters", letters="true", partition=str(letter["partition"]), offset=str(letter["offset"]))
    browser.until(lambda: f"value: {INJECTION.decode()}" in browser.text(), what="the record as text")
    script = "return Array.from(document.querySelectorAll('script, img')).filter(one => one.outerHTML.includes('owned')).length"
    assert browser.driver.execute_script(script) == 0
    assert "owned" not in browser.driver.title
    browser.shot("dead-letter")


def test_the_export_holds_every_letter_and_no_formula(browser: Browser) -> None:
    browser.visit("dead-letters", letters="true")
    css = "[data-testid=stDownloadButton] button"
    browser.until(
        lambda: len(browser.find(css)) == 1, what="the export"
    )  # letters come behind the page, which is drawn anew then
    browser.press(css)
    browser.until(lambda: bool(list(browser.downloads.glob("*.csv"))), what="the download")
    rows = list(csv.DictReader(next(browser.downloads.glob("*.csv")).read_text().splitlines()))
    assert len(rows) == 2
    assert {FORMULA.decode(), f"'{FORMULA.decode()}"} & {row["key_text"] for row in rows} == {f"'{FORMULA.decode()}"}


@pytest.mark.parametrize(
    "page",
    [page if page in BY_DAY[1:] else pytest.param(page, marks=pytest.mark.nightly) for page in PAGES],
)
def test_every_page_fits_a_phone(browser: Browser, page: str) -> None:
    browser.screen(390, 844, phone="yes")
    browser.visit(page)
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.driver.execute_script("return document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    if page == "overview":
        browser.shot("phone")
    browser.screen(1360, 1000)


@pytest.mark.nightly
def test_the_page_follows_a_system_that_is_dark(browser: Browser) -> None:
    browser.colours("dark")
    browser.visit()
    background = browser.driver.execute_script(
        "return getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    )
    assert sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(","))) < 150
    browser.shot("dark")
    browser.colours("light")


@pytest.mark.nightly
def test_new_commits_appear_without_the_page_being_drawn_again(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    here, topic, config = real
    browser.visit(refresh="5 s")
    browser.driver.execute_script("window.before = document.querySelector('[data-testid=stMetric]')")
    produce(here.servers, topic, [Given(document(n=1), 0, time.time_ns() // 1_000_000)])
    here.drain(config)
    browser.until(lambda: browser.figures().get("Records written") == "41", what="the new record")
    assert browser.driver.execute_script("return window.before.isConnected")
    assert browser.troubles() == []


@pytest.mark.nightly
def test_dragging_over_a_chart_sets_the_range_of_the_page(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    _, _, config = real
    browser.screen(1360, 1000)
    browser.visit(sink=config["name"], range="1 hour", refresh="off")
    css = "[data-testid=stVegaLiteChart] canvas"
    browser.until(lambda: len(browser.find(css)) >= 3, what="the charts")
    chart = browser.find(css)[-1]
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    width = chart.size["width"]
    drag = ActionChains(browser.driver).move_to_element_with_offset(chart, -width // 6, -40).click_and_hold()
    drag.move_by_offset(width // 6, 0).move_by_offset(width // 6, 0).release().perform()
    browser.until(lambda: "range=from" in browser.driver.current_url, what="the range in the address")
    address = browser.driver.current_url
    assert "from=2" in address
    assert "to=2" in address
    browser.until(lambda: "From" in browser.text(), what="its fields in the sidebar")
    assert browser.troubles() == []


@pytest.mark.nightly
def test_what_a_page_shows_can_be_exported_as_csv_and_parquet(
    browser: Browser, real: tuple[Surroundings, str, dict[str, str]]
) -> None:
    _, topic, config = real
    for old in browser.downloads.glob("*"):
        if old.suffix in (".csv", ".parquet"):
            old.unlink()
    browser.visit(sink=config["name"], refresh="off")
    buttons = "[data-testid=stDownloadButton] button"
    for place, ending in enumerate(("csv", "parquet")):
        browser.unfold("Export")
        browser.until(lambda: len(browser.find(buttons)) == 2, what="both forms")
        browser.press(buttons, place)
        browser.until(lambda ending=ending: bool(list(browser.downloads.glob(f"*.{ending}"))), what=ending)  # type: ignore[misc]
    (parquet,) = browser.downloads.glob("*.parquet")
    shown = pd.read_parquet(parquet)
    assert shown["Topic"].tolist() == [topic]
    with parquet.with_suffix(".csv").open() as file:
        assert [row["Topic"] for row in csv.DictReader(file)] == [topic]
