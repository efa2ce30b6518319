"""Zones, patterns, buckets and instants as Joda-Time has them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.joda.buckets import BucketNames, bucket_start, offsets_ms
from kafka_s3.connect.joda.instants import parse_instant, parse_timestamp
from kafka_s3.connect.joda.pattern import Pattern, check_pattern
from kafka_s3.connect.joda.zones import date_of, days_of, fields, offset_ms, zone
from tests.support.examples import examples

ZONES = [
    "UTC",
    "Europe/Paris",
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "-03:00",
]
HOUR, DAY, WEEK = 3_600_000, 86_400_000, 7 * 86_400_000
instants = st.integers(-62_000_000_000_000, 250_000_000_000_000)
modern = st.integers(2 * WEEK, 4_102_444_800_000)


def ms(text: str, where: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone(where)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("YYYY yyyy xxxx YY yy xx", "2021 2021 2020 21 21 20"),
        ("ww-e EEE EEEE", "53-5 Fri Friday"),
        ("D DDD d dd M MM MMM MMMM", "1 001 1 01 1 01 Jan January"),
        ("H HH k kk K h hh a", "0 00 24 24 0 12 12 AM"),
        ("m mm s ss S SSS SSSS", "5 05 7 07 0 045 0450"),
        ("C CC G", "20 20 AD"),
        ("Z ZZ ZZZ", "+0000 +00:00 UTC"),
        ("'year'=YYYY/''/'it''s'", "year=2021/'/it's"),
        ("YYYY-MM-dd'T'HH:mm:ss.SSS", "2021-01-01T00:05:07.045"),
        ("MMM/YYYY", "Jan/2021"),
    ],
)
def test_every_letter_gives_what_joda_gives(pattern: str, text: str) -> None:
    at = ms("2021-01-01T00:05:07") + 45
    assert Pattern(pattern, locale="en", zone=UTC).format(at) == text


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("en", "March/Friday/Mar/Fri"),
        ("fr", "mars/vendredi/mars/ven."),
        ("de", "März/Freitag/März/Fr."),
        ("pt", "março/sexta-feira/mar./sex."),
        ("en-US", "Mar/Fri/Mar/Fri"),
        ("fr-FR", "Mar/Fri/Mar/Fri"),
        ("xx", "Mar/Fri/Mar/Fri"),
    ],
)
def test_the_whole_locale_is_a_language_and_unknown_ones_give_the_root_texts(locale: str, text: str) -> None:
    assert Pattern("MMMM/EEEE/MMM/EEE", locale=locale, zone=UTC).format(ms("2024-03-01T00:00:00")) == text


def test_zone_letters_show_the_offset_at_that_instant() -> None:
    pattern = Pattern("Z ZZ ZZZ z", locale="en", zone=zone("America/Los_Angeles"))
    assert pattern.format(ms("2024-01-15T00:00:00")) == "-0800 -08:00 America/Los_Angeles PST"
    assert pattern.format(ms("2024-07-15T00:00:00")) == "-0700 -07:00 America/Los_Angeles PDT"


@pytest.mark.parametrize(
    ("pattern", "names"), [("W", "W"), ("YYYY-'open", "quote"), ("", "empty"), ("  ", "empty"), ("YYYY/tt", "tt")]
)
def test_a_bad_pattern_is_named(pattern: str, names: str) -> None:
    problem = check_pattern(pattern)
    assert problem is not None
    assert names in problem
    with pytest.raises(ValueError, match=names):
        Pattern(pattern, locale="en", zone=UTC)


@pytest.mark.parametrize(
    "id", ["UTC", "Europe/Paris", "EST", "PST8PDT", "CET", "+05:30", "-03:00", "+02", "+0200", "GMT"]
)
def test_zones_that_joda_knows_are_known(id: str) -> None:
    assert zone(id).utcoffset(datetime(2024, 1, 1, tzinfo=UTC)) is not None or zone(id) is not None


@pytest.mark.parametrize(
    ("id", "remedy"),
    [("PST", "America/Los_Angeles"), ("Europe/Pariss", "Europe/Paris"), ("", "UTC"), ("+25:00", "23:59")],
)
def test_zones_that_joda_does_not_know_are_refused_with_a_way_out(id: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        zone(id)


@given(st.integers(-3_000_000, 3_000_000))
def test_the_calendar_turns_days_into_dates_and_back(day: int) -> None:
    assert days_of(*date_of(day)) == day


@given(instants)
def test_the_calendar_agrees_with_pythons(at: int) -> None:
    known = datetime.fromtimestamp(at // 1000, UTC)
    ours = fields(at)
    iso = known.isocalendar()
    assert (ours.year, ours.month, ours.day, ours.hour, ours.minute, ours.second) == known.timetuple()[:6]
    assert (ours.week_year, ours.week, ours.weekday) == (iso.year, iso.week, iso.weekday)
    assert ours.day_of_year == known.timetuple().tm_yday


def test_years_beyond_pythons_calendar_are_numbers_too() -> None:
    assert Pattern("yyyy YYYY G", locale="en", zone=UTC).format(-70_000_000_000_000) == "-0249 0250 BC"
    assert Pattern("yyyy", locale="en", zone=UTC).format(300_000_000_000_000) == "11476"


@given(st.lists(instants, min_size=1, max_size=50), st.sampled_from(ZONES))
def test_offsets_of_many_instants_are_the_offsets_of_each(at: list[int], where: str) -> None:
    assert offsets_ms(zone(where), np.array(at, np.int64)).tolist() == [offset_ms(zone(where), one) for one in at]


@settings(max_examples=examples(200))
@given(
    st.lists(modern, min_size=1, max_size=30),
    st.sampled_from(ZONES),
    st.sampled_from([HOUR, DAY, WEEK, 900_000, 25_200_000]),
)
def test_a_bucket_begins_at_or_before_its_instants_and_is_its_own_bucket(
    at: list[int], where: str, duration: int
) -> None:
    tz = zone(where)
    starts = bucket_start(np.array(at, np.int64), duration, tz)
    again = bucket_start(starts, duration, tz)
    for one, start, twice in zip(at, starts.tolist(), again.tolist(), strict=True):
        assert start <= one
        assert one - start < duration + 2 * HOUR  # a change of clocks may lengthen a bucket
        if tz.utcoffset(datetime.fromtimestamp(start / 1000, UTC)) == tz.utcoffset(
            datetime.fromtimestamp(one / 1000, UTC)
        ):
            assert twice == start


def test_before_1970_a_bucket_is_cut_towards_zero() -> None:
    assert bucket_start(np.array([-1, -HOUR - 1]), HOUR, UTC).tolist() == [0, -HOUR]


def test_both_hours_of_the_repeated_hour_share_a_directory() -> None:
    tz = zone("America/Los_Angeles")
    names = BucketNames(Pattern("dd/HH", locale="en", zone=tz), duration_ms=HOUR, zone=tz)
    first = ms("2024-11-03T08:30:00")
    codes, found = names.encode(np.array([first, first + HOUR, first + 2 * HOUR]))
    assert [found[code] for code in codes] == ["03/01", "03/01", "03/02"]


@given(st.lists(st.sampled_from([0, HOUR, 2 * HOUR, 5, HOUR + 7]), min_size=1, max_size=20))
def test_names_come_in_first_seen_order_and_once_each(at: list[int]) -> None:
    names = BucketNames(Pattern("HH", locale="en", zone=UTC), duration_ms=HOUR, zone=UTC)
    codes, found = names.encode(np.array(at, np.int64))
    wanted = [f"{one // HOUR:02d}" for one in at]
    assert [found[code] for code in codes] == wanted
    assert found == list(dict.fromkeys(wanted))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2024-01-15T10:00:00Z", "2024-01-15T10:00:00"),
        ("2024-01-15T10:00:00.5Z", "2024-01-15T10:00:00.500"),
        ("2024-01-15T10:00:00.123456789Z", "2024-01-15T10:00:00.123"),
        ("2024-01-15T10:30:00+02:00", "2024-01-15T08:30:00"),
        ("2024-01-15T10:30:00+0200", "2024-01-15T08:30:00"),
        ("2024-01-15T10:30:00-02", "2024-01-15T12:30:00"),
        ("2024-01-15", "2024-01-15T00:00:00"),
        ("2024-01", "2024-01-01T00:00:00"),
        ("2024-01-15T10", "2024-01-15T10:00:00"),
        ("2024-01-15T10:00", "2024-01-15T10:00:00"),
        ("T10:00", "1970-01-01T10:00:00"),
        ("2024-W03-1", "2024-01-15T00:00:00"),
        ("2024-W03", "2024-01-15T00:00:00"),
        ("2024-015", "2024-01-15T00:00:00"),
        ("2024-01-15T10.5Z", "2024-01-15T10:30:00"),
        ("2024-01-15T10:30,5Z", "2024-01-15T10:30:30"),
        ("2024-02-29", "2024-02-29T00:00:00"),
    ],
)
def test_iso_texts_are_instants(text: str, wanted: str) -> None:
    assert parse_instant(text, default_zone=UTC) == round(
        datetime.fromisoformat(wanted).replace(tzinfo=UTC).timestamp() * 1000
    )


@pytest.mark.parametrize(
    "text",
    [
        "2015-04-02 08:00:00", "20240115T100000Z", "2024-01-15T10:00:60Z", "2024-01-15T24:00:00Z", " 2024-01-15", "2024-01-15 ",
        "2024-02-30", "2023-02-29", "2024-13-01", "2024-W54-1", "2024-367", "", "T", "yesterday", "2024-01-15T10:00:00 Z", "2024-01-15Z",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid format|Cannot parse"):
        parse_instant(text, default_zone=UTC)


def test_a_refusal_shows_where_the_text_is_malformed() -> None:
    with pytest.raises(ValueError, match='is malformed at " 08:00:00"'):
        parse_instant("2015-04-02 08:00:00", default_zone=UTC)


def test_digits_are_epoch_milliseconds() -> None:
    assert parse_timestamp("1427961600000", default_zone=UTC) == 1427961600000
    assert parse_timestamp("-5", default_zone=UTC) == -5
    assert parse_timestamp("2024", default_zone=UTC) == 2024
    with pytest.raises(ValueError, match="64 bits"):
        parse_timestamp("9999999999999999999", default_zone=UTC)


def test_a_text_without_offset_counts_in_the_default_zone() -> None:
    assert parse_instant("2024-01-15T10:00", default_zone=ZoneInfo("Europe/Paris")) == ms("2024-01-15T09:00:00")


@given(modern)
def test_a_formatted_instant_parses_to_itself(at: int) -> None:
    text = Pattern("YYYY-MM-dd'T'HH:mm:ss.SSSZZ", locale="en", zone=zone("Asia/Kathmandu")).format(at)
    assert parse_instant(text, default_zone=UTC) == at
