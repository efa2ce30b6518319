"""Do the page about metrics and the examples of Grafana and Prometheus name the instruments that there are?"""

from __future__ import annotations

from kafka_s3.run.metrics.sink_metrics import INSTRUMENTS, Kind, table
from tests.support.metrics import named_in_examples
from tests.support.repository import ROOT


def test_the_page_has_the_table_of_the_instruments() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page, "python -m kafka_s3.run.metrics.sink_metrics prints it"


def test_every_instrument_is_in_the_dashboard_and_the_examples_name_nothing_else() -> None:
    names = {one.name: one for one in INSTRUMENTS}
    asked = named_in_examples()
    for name in asked:
        stem = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert name in names or names[stem].kind is Kind.HISTOGRAM
    assert all(any(name.startswith(known) for name in asked) for known in names)


def test_names_follow_the_conventions_of_prometheus() -> None:
    for one in INSTRUMENTS:
        assert one.name.startswith("kafka_s3_")
        assert one.name.endswith("_total") is (one.kind is Kind.COUNTER)
        if one.kind is Kind.HISTOGRAM:
            assert one.unit == "s"
        assert one.labels[0] == "sink" or one.labels == ("process",)
        assert not {"partition", "offset", "key"} & {*one.labels}
