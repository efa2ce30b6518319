"""Parts of configurations that many tests are made of."""

STATE = "_kafka_s3/"
BASE = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "s3.region": "us-east-1",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
PARTITIONER = "io.confluent.connect.storage.partitioner."
TIME = {
    "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner",
    "path.format": "'h'=HH",
    "partition.duration.ms": "3600000",
    "locale": "en",
    "timezone": "UTC",
    "timestamp.extractor": "Record",
}
FIELD = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "d"}
TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq"}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BLOCK_GZIP: dict[str, str | None] = {
    "format.class": "block_gzip", "flush.size": None, "rotate.schedule.interval.ms": "1800000", "timezone": "UTC",
    "value.converter": BYTES, "key.converter": BYTES,
}  # fmt: skip
