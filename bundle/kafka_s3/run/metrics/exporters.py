"""How do the numbers reach Prometheus, and an OpenTelemetry collector? By a page that is made at each request; by OTLP over HTTP.

Address, headers, certificates, timeout and compression of OTLP are read by OpenTelemetry's exporter (`OTEL_EXPORTER_OTLP_*`), the pause
between two messages from OTEL_METRIC_EXPORT_INTERVAL, what the process is called from OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, groupby
from threading import Event, Thread
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from kafka_s3 import __version__
from kafka_s3.model.errors import ConfigError, Problem, SinkError
from kafka_s3.model.timing import BOUNDS_S, Durations
from kafka_s3.run.metrics.sink_metrics import INSTRUMENTS, Instrument, Kind, Sample, Samples

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as PrometheusMetric

KEY: Final = "metrics.prometheus.port"


@contextmanager
def serve_prometheus(samples: Samples, port: int) -> Iterator[None]:
    """Serves the page at `/metrics` of all interfaces while the body runs. Raises SinkError where the port is taken."""
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, registry=prometheus_registry(samples))
    except OSError as error:
        text = f"{KEY} ({port}): cannot be listened on: {error.strerror}. Name a free port, or 0 for none."
        raise SinkError(text) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prometheus_registry(samples: Samples) -> CollectorRegistry:
    """What prometheus_client makes the page of."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(_Families(samples))
    return registry


class _Families:
    """What prometheus_client calls a collector."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def describe(self) -> list[PrometheusMetric]:
        """Nothing: the page would be made once to learn the names."""
        return []

    def collect(self) -> Iterator[PrometheusMetric]:
        """Every instrument as a family of metrics, those without values too."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        made = {
            Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily,
        }  # fmt: skip
        families = {one.name: made[one.kind](one.name, one.help, labels=one.labels) for one in INSTRUMENTS}
        for sample in self._samples():
            family = families[sample.instrument.name]
            if isinstance(sample.value, Durations):
                family.add_metric(sample.labels, _buckets(sample.value), sample.value.seconds)
            else:
                family.add_metric(sample.labels, sample.value)
        yield from families.values()


def _buckets(durations: Durations) -> list[tuple[str, int]]:
    """Each bound with how many did not exceed it."""
    counts = accumulate(durations.counts.get(bucket, 0) for bucket in range(len(BOUNDS_S) + 1))
    return list(zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True))


if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric, MetricsData, NumberDataPoint

INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_MS: Final = 60_000
LAST_WORD_S: Final = 15.0


@contextmanager
def send_otlp(samples: Samples) -> Iterator[None]:
    """Sends everything at each interval while the body runs, and once more afterwards. A collector that fails never stops a sink.

    Raises ConfigError for an interval that is no number.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter, begun, over, pause_s = OTLPMetricExporter(), time_ns(), Event(), interval_s(os.environ)

    def send_until_over() -> None:
        while not over.wait(pause_s):
            exporter.export(otlp_message(samples(), begun, time_ns()))
        exporter.export(otlp_message(samples(), begun, time_ns()))
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
        raise ConfigError([Problem(INTERVAL, text, "is not a number of milliseconds.", "Write 60000, or unset it.")])
    return int(text) / 1000


def otlp_message(samples: Iterable[Sample], begun_ns: int, now_ns: int) -> MetricsData:
    """Everything as OpenTelemetry has it: cumulative since `begun_ns` (Unix time)."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    own = Resource({"service.name": "kafka-s3", "service.version": __version__})
    rank = {one: number for number, one in enumerate(INSTRUMENTS)}
    in_order = sorted(samples, key=lambda sample: rank[sample.instrument])
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
    counts = [sample.value.counts.get(bucket, 0) for bucket in range(len(BOUNDS_S) + 1)]
    unknown: Any = None  # the least and the largest duration are not kept, and OTLP may do without
    return HistogramDataPoint(
        _attributes(sample), begun_ns, now_ns, sample.value.count, sample.value.seconds, counts, BOUNDS_S, unknown, unknown
    )  # fmt: skip


def _attributes(sample: Sample) -> dict[str, str]:
    return dict(zip(sample.instrument.labels, sample.labels, strict=True))
