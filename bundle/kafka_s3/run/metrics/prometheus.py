"""How does Prometheus get the numbers? From a page that an HTTP server of this process makes anew at each request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kafka_s3.model.errors import SinkError
from kafka_s3.model.timing import BOUNDS_S, Durations
from kafka_s3.run.metrics.instruments import INSTRUMENTS, Kind, Samples

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

KEY: Final = "metrics.prometheus.port"


@contextmanager
def served(samples: Samples, port: int) -> Iterator[None]:
    """Serves the page at `/metrics` of all interfaces while the body runs. Raises SinkError where the port is taken."""
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, registry=registry_of(samples))
    except OSError as error:
        text = f"{KEY} ({port}): cannot be listened on: {error.strerror}. Name a free port, or 0 for none."
        raise SinkError(text) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def registry_of(samples: Samples) -> CollectorRegistry:
    """What prometheus_client makes the page of."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(_Families(samples))
    return registry


class _Families:
    """What prometheus_client calls a collector."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def describe(self) -> list[Metric]:
        """Nothing: the page would be made once to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
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
    counts = accumulate(durations.counts.get(place, 0) for place in range(len(BOUNDS_S) + 1))
    return list(zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True))
