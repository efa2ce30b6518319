"""How do the numbers reach an OpenTelemetry collector? By OTLP over HTTP, now and then, to where the standard variables say.

Address, headers, certificates, timeout and compression are read by OpenTelemetry's exporter (`OTEL_EXPORTER_OTLP_*`), the pause between
two messages from OTEL_METRIC_EXPORT_INTERVAL, what the process is called from OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from threading import Event, Thread
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from kafka_s3 import __version__
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.timing import BOUNDS_S, Durations
from kafka_s3.run.metrics.instruments import INSTRUMENTS, Instrument, Kind, Sample, Samples

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric, MetricsData, NumberDataPoint

INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_MS: Final = 60_000
LAST_WORD_S: Final = 15.0


@contextmanager
def sent(samples: Samples) -> Iterator[None]:
    """Sends everything at each interval while the body runs, and once more afterwards. A collector that fails never stops a sink.

    Raises ConfigError for an interval that is no number.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter, begun, over, pause_s = OTLPMetricExporter(), time_ns(), Event(), interval_s(os.environ)

    def send_until_over() -> None:
        while not over.wait(pause_s):
            exporter.export(message(samples(), begun, time_ns()))
        exporter.export(message(samples(), begun, time_ns()))
        exporter.shutdown()

    thread = Thread(target=send_until_over, name="otlp", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LAST_WORD_S)


def interval_s(environment: Mapping[str, str]) -> float:
    """Seconds between two messages. Raises ConfigError."""
    text = environment.get(INTERVAL) or str(INTERVAL_MS)
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ConfigError([Problem(INTERVAL, text, "is no number of milliseconds.", "Write 60000, or unset it.")])
    return int(text) / 1000


def message(samples: Iterable[Sample], begun_ns: int, now_ns: int) -> MetricsData:
    """Everything as OpenTelemetry has it: cumulative since `begun_ns` (Unix time)."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    own = Resource({"service.name": "kafka-s3", "service.version": __version__})
    places = {one: place for place, one in enumerate(INSTRUMENTS)}
    in_order = sorted(samples, key=lambda sample: places[sample.instrument])
    metrics = [
        _metric(instrument, list(group), begun_ns, now_ns)
        for instrument, group in groupby(in_order, key=lambda sample: sample.instrument)
    ]
    scope = ScopeMetrics(InstrumentationScope("kafka_s3", __version__), metrics, "")
    return MetricsData([ResourceMetrics(own.merge(OTELResourceDetector().detect()), [scope], "")])


def _metric(instrument: Instrument, samples: list[Sample], begun_ns: int, now_ns: int) -> Metric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, Sum

    cumulative = AggregationTemporality.CUMULATIVE
    data: Gauge | Histogram | Sum
    if instrument.kind is Kind.HISTOGRAM:
        data = Histogram([_durations(one, begun_ns, now_ns) for one in samples], cumulative)
    elif instrument.kind is Kind.COUNTER:
        data = Sum([_number(one, begun_ns, now_ns) for one in samples], cumulative, True)
    else:
        data = Gauge([_number(one, begun_ns, now_ns) for one in samples])
    return Metric(instrument.name, instrument.help, instrument.unit, data)


def _number(sample: Sample, begun_ns: int, now_ns: int) -> NumberDataPoint:
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    assert not isinstance(sample.value, Durations)
    return NumberDataPoint(_attributes(sample), begun_ns, now_ns, sample.value)


def _durations(sample: Sample, begun_ns: int, now_ns: int) -> HistogramDataPoint:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    assert isinstance(sample.value, Durations)
    counts = [sample.value.counts.get(place, 0) for place in range(len(BOUNDS_S) + 1)]
    unknown: Any = None  # the least and the largest duration are not kept, and OTLP may do without
    return HistogramDataPoint(
        _attributes(sample), begun_ns, now_ns, sample.value.count, sample.value.seconds, counts, BOUNDS_S, unknown, unknown
    )  # fmt: skip


def _attributes(sample: Sample) -> dict[str, str]:
    return dict(zip(sample.instrument.labels, sample.labels, strict=True))
