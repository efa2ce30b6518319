"""Answers that Joda-Time 2.13 gave on Java 17, for what the rules in prose do not tell: overlaps, quotes, odd offsets, far years."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.joda.buckets import BucketNames, bucket_start, distinct, first_rows
from kafka_s3.connect.joda.instants import parse_instant, parse_timestamp
from kafka_s3.connect.joda.pattern import Pattern, check_pattern
from kafka_s3.connect.joda.zones import offset_ms, zone
from tests.support.examples import examples

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def name(pattern: str, at: int, where: str = "UTC", locale: str = "en") -> str:
    return Pattern(pattern, locale=locale, zone=zone(where)).format(at)


@pytest.mark.parametrize(
    ("pattern", "duration", "where", "locale", "at", "wanted"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", HOUR, "UTC", "en", 1705314600000, "year=2024/month=01/day=15/hour=10"),
        ("'year'=YYYY/'month'=MM/'day'=dd", DAY, "America/Los_Angeles", "en", 1710063000000, "year=2024/month=03/day=10"),
        ("'day'=dd/'hour'=HH", HOUR, "Australia/Lord_Howe", "en", 951825600000, "day=29/hour=23"),
        ("'day'=dd/'hour'=HH", HOUR, "-03:00", "en", 1718495999999, "day=15/hour=20"),
        ("'month'=MM/'day'=dd", DAY, "CET", "en", 1730626200000, "month=11/day=03"),
        ("'month'=MM/'day'=dd", DAY, "America/Los_Angeles", "en", 1710064800000, "month=03/day=10"),
        ("'month'=MM/'day'=dd", DAY, "America/Los_Angeles", "en", 1730624400000, "month=11/day=03"),
        ("'month'=MM/'day'=dd/'hour'=HH", HOUR, "Australia/Lord_Howe", "en", 1712414700000, "month=04/day=07/hour=01"),
        ("YYYY-MM-dd'T'HH:mm:ss.SSS", 1, "UTC", "en", 1705315062123, "2024-01-15T10:37:42.123"),
        ("YYYY-MM-dd'T'HH:mm:ss.SSS", 7 * DAY, "UTC", "en", 1705315062123, "2024-01-11T00:00:00.000"),
        ("yy M hh SSSS", 1, "UTC", "en", 1735517229045, "24 12 12 0450"),
        ("xxxx-'W'ww", DAY, "UTC", "en", 1641038400000, "2021-W52"),
        ("xxxx-'W'ww-e", HOUR, "UTC", "en", 1735560000000, "2025-W01-1"),
        ("MMMM/EEEE/MMM/EEE", DAY, "UTC", "pt", 1709251200000, "março/sexta-feira/mar./sex."),
        ("YYYY/MMMM/EEEE", HOUR, "UTC", "fr", 1709251200000, "2024/mars/vendredi"),
    ],
)  # fmt: skip
def test_a_record_gets_the_directory_that_the_original_gave_it(
    pattern: str, duration: int, where: str, locale: str, at: int, wanted: str
) -> None:
    names = BucketNames(Pattern(pattern, locale=locale, zone=zone(where)), duration_ms=duration, zone=zone(where))
    codes, found = names.encode(np.array([at]))
    assert (codes.tolist(), found) == ([0], [wanted])


@pytest.mark.parametrize(
    ("where", "duration", "at", "wanted"),
    [
        ("Europe/Paris", MINUTE, 1414285200001, 1414285200000),
        ("Australia/Lord_Howe", 45 * MINUTE, 636476399999, 636476400000),
        ("Pacific/Apia", HOUR, 1365253200000, 1365256800000),
        ("Antarctica/Troll", 1000, 1729989000000, 1729996200000),
        ("Europe/London", 45 * MINUTE, 152073000000, 152072100000),
        ("America/Los_Angeles", HOUR, 1730622600000, 1730620800000),
        ("America/Los_Angeles", HOUR, 1730626200000, 1730620800000),
        ("America/Los_Angeles", 2 * HOUR, 1710066600000, 1710064800000),
        ("Europe/Paris", 2 * HOUR, 1711848600000, 1711846800000),
        ("America/Sao_Paulo", DAY, 1541304000000, 1541300400000),
    ],
)
def test_bucket_starts_at_changes_of_clocks_are_jodas(where: str, duration: int, at: int, wanted: int) -> None:
    assert bucket_start(np.array([at]), duration, zone(where)).tolist() == [wanted]


@given(
    st.lists(st.integers(-100 * 366 * DAY, 200 * 366 * DAY), max_size=40),
    st.sampled_from(["UTC", "Europe/Paris", "America/Los_Angeles", "Australia/Lord_Howe", "Asia/Kathmandu", "+05:45"]),
    st.sampled_from([1000, 45 * MINUTE, HOUR, DAY, 7 * DAY]),
)
@settings(max_examples=examples(60))
def test_many_instants_get_the_buckets_and_names_of_each(at: list[int], where: str, duration: int) -> None:
    tz, column = zone(where), np.array(at, np.int64)
    each = [int(bucket_start(np.array([one]), duration, tz)[0]) for one in at]
    assert bucket_start(column, duration, tz).tolist() == each
    pattern = Pattern("yyyy-MM-dd HH:mm:ss", locale="en", zone=tz)
    codes, names = BucketNames(pattern, duration_ms=duration, zone=tz).encode(column)
    assert [names[code] for code in codes] == [pattern.format(start) for start in each]


@given(st.lists(st.integers(-(10**6), 10**6) | st.integers(-(10**17), 10**17), min_size=1, max_size=60))
def test_distinct_values_are_those_that_numpy_finds(values: list[int]) -> None:
    column = np.array(values, np.int64)
    for near in (column, column % 100):
        found, codes = distinct(near)
        assert found.tolist() == np.unique(near).tolist()
        assert found[codes].tolist() == near.tolist()
        assert first_rows(codes, len(found)).tolist() == [near.tolist().index(value) for value in found]


def test_no_records_are_no_names() -> None:
    names = BucketNames(Pattern("HH", locale="en", zone=UTC), duration_ms=HOUR, zone=UTC)
    codes, found = names.encode(np.array([], np.int64))
    assert (codes.tolist(), found) == ([], [])


@pytest.mark.parametrize("duration", [0, -1])
def test_a_bucket_without_width_is_refused(duration: int) -> None:
    with pytest.raises(ValueError, match="positive duration"):
        bucket_start(np.array([0]), duration, UTC)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("''''", "''"),
        ("Y''''M", "1970''1"),
        ("'it''s'''YYYY", "it's'1970"),
        ("'a'''''", "a''"),
        ("'x'YYYY''MM'y''z'", "x1970'01y'z"),
        ("'''a'''", "'a'"),
        ("é=YYYY", "é=1970"),
    ],
)
def test_two_quotes_are_one_inside_and_outside_quoted_text(pattern: str, wanted: str) -> None:
    assert name(pattern, 0) == wanted


@pytest.mark.parametrize(("pattern", "place"), [("YYYY/'a", "at 5"), ("'''", "at 2"), ("YYYY/tt", "tt (at 5;")])
def test_a_problem_of_a_pattern_says_where_it_is(pattern: str, place: str) -> None:
    assert place in (check_pattern(pattern) or "")


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (-62135596800001, "0000 0001 00 00 BC 0"),
        (-70000000000000, "-0249 0250 49 49 BC 2"),
        (253402300800000, "10000 10000 00 00 AD 100"),
        (3000000000000000, "97036 97036 36 36 AD 970"),
    ],
)
def test_years_of_any_era_are_jodas(at: int, wanted: str) -> None:
    assert name("yyyy YYYY yy YY G C", at) == wanted


@pytest.mark.parametrize(
    ("where", "at", "hour"),
    [("Europe/Paris", 300000000000000, "07"), ("America/Los_Angeles", 300000000000000, "22"), ("Europe/Paris", 10**15, "03")],
)  # fmt: skip
def test_summer_time_goes_on_beyond_the_year_9999(where: str, at: int, hour: str) -> None:
    assert name("HH", at, where) == hour


@given(st.integers(0, 200_000 * 365 * DAY), st.sampled_from(["Europe/Paris", "America/Los_Angeles", "UTC"]))
def test_offsets_repeat_with_the_calendar(at: int, where: str) -> None:
    after_rules_settled = at + 100 * 366 * DAY
    assert offset_ms(zone(where), after_rules_settled) == offset_ms(zone(where), after_rules_settled + 146_097 * DAY)


def test_offset_letters_show_no_seconds_but_the_id_does() -> None:
    assert name("Z ZZ ZZZ", 0, "-03:00:30") == "-0300 -03:00 -03:00:30"
    assert name("ZZZ", 0, "+02:00:30.5") == "+02:00:30.500"
    assert name("Z ZZ", -2208988800000 - DAY, "Asia/Kathmandu") == "+0541 +05:41"


@pytest.mark.parametrize(
    ("id", "offset"),
    [
        ("Z", 0), ("UT", 0), ("-00:00", 0), ("GMT+0", 0), ("UTC+02:00", 2 * HOUR), ("UTC-0130", -90 * MINUTE), ("UT+01:00", HOUR),
        ("GMT+02:00", 2 * HOUR), ("+02:00:30", 2 * HOUR + 30_000), ("+020030", 2 * HOUR + 30_000), ("+0200301", 2 * HOUR + 30_100),
        ("+23:59:59.999", DAY - 1), ("MET", HOUR), ("HST", -10 * HOUR),
    ],
)  # fmt: skip
def test_offsets_that_joda_reads_are_read(id: str, offset: int) -> None:
    assert offset_ms(zone(id), 1705276800000) == offset


@pytest.mark.parametrize(
    "id",
    ["PST", "utc", "europe/paris", "posix/Europe/Paris", "right/Europe/Paris", "+5", "+05:60", "+24:00", "+0200:30", "+02:0030",
     "+٠٢:٠٠", "UTC+2", "GMT-3", "UTC ", "../etc/passwd", "localtime", "Factory", "5", "+"],
)  # fmt: skip
def test_ids_that_joda_refuses_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match="is not known"):
        zone(id)


@pytest.mark.parametrize(
    ("locale", "wanted"),
    [
        ("nl", "februari feb. p.m."), ("fi", "helmikuuta helmik. ip."), ("ja", "2月 2月 午後"), ("ko", "2월 2월 오후"),
        ("es", "febrero feb p.\u00a0m."), ("in", "Februari Feb PM"), ("FR", "février févr. PM"),
        ("aa", "Feb Feb PM"), ("root", "Feb Feb PM"),
    ],
)  # fmt: skip
def test_texts_are_those_of_java_17(locale: str, wanted: str) -> None:
    assert name("MMMM MMM a", 1708000000000, locale=locale) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("+5", -62009366400000), ("2024-01-15t10:00z", 1705312800000), ("2024-w03-1", 1705276800000), ("-0001-01-01", -62198755200000),
        ("2024-01-15T10:00:00+02:00:30.5", 1705305569500), ("2024-01-15T10:00:00+02:00:30,500", 1705305569500),
        ("2024-01-15T10:00:00+020030500", 1705305569500), ("T10.25", 36_900_000), ("2024-01-15T10:00:00.9999", 1705312800999),
        ("10000-01-01T00:00:00Z", 253402300800000), ("1969-12-31T23:59:59.9999Z", -1), ("2024-01-15T10:00:00,5", 1705312800500),
        ("+292278993-01-01", 9223371985593600000),
    ],
)  # fmt: skip
def test_odd_texts_are_the_instants_that_joda_reads(text: str, wanted: int) -> None:
    assert parse_instant(text, default_zone=UTC) == wanted


@pytest.mark.parametrize(
    "text",
    ["2024-01-15T10:00:00+24:00", "2024-01-15T10:00:00+99:00", "2024-01-15T10:00:00+02:60", "2024-01-15T10:00:00+0200:30",
     "2024-01-15T10:00:00+02:0030", "٢٠٢٤-٠١-١٥", "2024-01-15T١٠:00", "999999999", "+-2024", "10:00", "2024.5"],
)  # fmt: skip
def test_texts_that_joda_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid format|Cannot parse"):
        parse_instant(text, default_zone=UTC)


@pytest.mark.parametrize("text", ["-292275055-01-01", "+292278994-01-01"])
def test_years_whose_milliseconds_overflow_are_refused_where_joda_gives_a_wrong_instant(text: str) -> None:
    with pytest.raises(ValueError, match="for year must be in the range"):
        parse_instant(text, default_zone=UTC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2015-04-02 08:00:00", 'Invalid format: "2015-04-02 08:00:00" is malformed at " 08:00:00"'),
        ("2024-01-15T10:60", 'Cannot parse "2024-01-15T10:60": Value 60 for minuteOfHour must be in the range [0,59]'),
        ("2024-01-15T24:00", 'Cannot parse "2024-01-15T24:00": Value 24 for hourOfDay must be in the range [0,23]'),
        ("2024-01-15T10:00+24:00", 'Invalid format: "2024-01-15T10:00+24:00" is malformed at "+24:00"'),
        ("T", 'Invalid format: "T" is too short'),
        ("", 'Invalid format: ""'),
    ],
)
def test_refusals_are_in_jodas_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        parse_instant(text, default_zone=UTC)
    assert str(refusal.value) == message


def test_a_repeated_local_time_is_its_first_occurrence_and_a_skipped_one_is_refused() -> None:
    paris = zone("Europe/Paris")
    assert parse_instant("2024-10-27T02:30", default_zone=paris) == 1729989000000
    with pytest.raises(ValueError, match="time zone offset transition"):
        parse_instant("2024-03-31T02:30", default_zone=paris)


@given(st.text(alphabet="0123456789-+:.,TZW ", max_size=24))
def test_any_text_is_an_instant_of_64_bits_or_refused(text: str) -> None:
    try:
        found = parse_timestamp(text, default_zone=UTC)
    except ValueError:
        return
    assert -(2**63) <= found < 2**63
