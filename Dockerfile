# An image that runs a sink, its commands, or the dashboard. `make release` first: it puts the wheel into dist/.
#
#   docker build -t kafka-s3:VERSION .
#   docker run --read-only --tmpfs /tmp -v ./s3-sink.json:/etc/kafka-s3/sink.json:ro kafka-s3:VERSION
#
# The system's Python is 3.11 and its Java 17, both kept up to date by Debian. The first stage needs pip and the network, the second
# gets the finished environment: it has no pip, no compiler, and nothing that the user of the process could write to.
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv openjdk-17-jre-headless ca-certificates
ARG EXTRAS=spark,delta,dashboard,metrics,otlp,msk,protobuf
ENV XDG_CACHE_HOME=/opt/cache PATH=/opt/kafka-s3/bin:$PATH
COPY dist/*.whl /wheels/
RUN python3 -m venv /opt/kafka-s3 \
 && pip install --no-cache-dir "$(ls /wheels/kafka_s3-*.whl)[$EXTRAS]"
# What would be fetched or made at the first start otherwise: the jars of Spark's Kafka source, and the archive of its classes.
RUN python -c 'from kafka_s3.run.java.jars import spark_kafka_jars; spark_kafka_jars()' \
 && python -m kafka_s3.run.spark.class_archive \
 && pip uninstall --yes --quiet pip setuptools

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 openjdk-17-jre-headless ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /tmp kafka-s3
COPY --from=build /opt /opt
# A Spark session asks for its user's home, and writes below /tmp: give it a tmpfs or an emptyDir where the root is read-only.
ENV PATH=/opt/kafka-s3/bin:$PATH XDG_CACHE_HOME=/opt/cache HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /tmp
HEALTHCHECK --interval=60s --timeout=30s --start-period=180s CMD ["kafka-s3", "check", "/etc/kafka-s3/sink.json"]
ENTRYPOINT ["kafka-s3"]
CMD ["run", "/etc/kafka-s3/sink.json", "--log-format", "json"]
