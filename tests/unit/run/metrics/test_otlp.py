"""What is sent to a collector, and how often."""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

from kafka_s3.model.errors import ConfigError
from kafka_s3.model.timing import BOUNDS_S, took
from kafka_s3.run.metrics.exporters import interval_s, otlp_message
from kafka_s3.run.metrics.sink_metrics import LAG_RECORDS, RECORDS_READ, REQUESTS, Sample


def test_each_kind_of_number_is_what_opentelemetry_has_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lake")
    samples = [
        Sample(RECORDS_READ, ("orders",), 7),
        Sample(LAG_RECORDS, ("orders", "t"), 3),
        Sample(REQUESTS, ("orders", "put_object"), took(0.02).plus(took(400.0))),
        Sample(LAG_RECORDS, ("orders", "u"), 4),
    ]
    (resource,) = encode_metrics(otlp_message(samples, 1, 2)).resource_metrics
    about = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert about["service.name"] == "lake"
    counter, gauge, histogram = resource.scope_metrics[0].metrics
    assert (counter.name, counter.unit) == ("kafka_s3_records_read_total", "")
    assert counter.sum.is_monotonic
    assert [(one.as_int, one.start_time_unix_nano) for one in counter.sum.data_points] == [(7, 1)]
    assert [one.as_int for one in gauge.gauge.data_points] == [3, 4]
    (point,) = histogram.histogram.data_points
    assert histogram.unit == "s"
    assert (point.count, point.sum) == (2, pytest.approx(400.02))
    assert [*point.explicit_bounds] == [*BOUNDS_S]
    assert [place for place, count in enumerate(point.bucket_counts) if count] == [2, len(BOUNDS_S)]
    assert not point.HasField("min")


def test_the_interval_is_the_standard_variables() -> None:
    assert interval_s({}) == 60
    assert interval_s({"OTEL_METRIC_EXPORT_INTERVAL": "500"}) == 0.5
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL"):
        interval_s({"OTEL_METRIC_EXPORT_INTERVAL": "soon"})
