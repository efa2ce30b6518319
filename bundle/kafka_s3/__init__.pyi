"""The public names, for type checkers; tests/unit/docs/test_public_api.py compares them with those of the package."""

from kafka_s3.connect.config.option import InvalidValue as InvalidValue
from kafka_s3.connect.config.option import OneOf as OneOf
from kafka_s3.connect.config.option import Option as Option
from kafka_s3.connect.config.option import Range as Range
from kafka_s3.connect.config.option import Type as Type
from kafka_s3.connect.config.plugins import options as options
from kafka_s3.connect.config.read import read_config as read_config
from kafka_s3.connect.config.settings import Settings as Settings
from kafka_s3.connect.config.transforms import Configured as Configured
from kafka_s3.connect.records.runs import Run as Run
from kafka_s3.connect.records.values import Longs as Longs
from kafka_s3.connect.records.values import Values as Values
from kafka_s3.connect.transforms.record import ConnectRecord as ConnectRecord
from kafka_s3.connect.transforms.record import Header as Header
from kafka_s3.connect.transforms.record import Predicate as Predicate
from kafka_s3.connect.transforms.record import Refused as Refused
from kafka_s3.connect.transforms.record import Transform as Transform
from kafka_s3.engine.task.partitioning.partitioners import Encoded as Encoded
from kafka_s3.engine.task.partitioning.partitioners import Partitioner as Partitioner
from kafka_s3.engine.task.partitioning.partitioners import encoded_each as encoded_each
from kafka_s3.model.errors import ConfigError as ConfigError
from kafka_s3.model.errors import RecordError as RecordError
from kafka_s3.model.errors import SinkError as SinkError
from kafka_s3.model.offsets import TopicPartition as TopicPartition
from kafka_s3.objects.format import Encoder as Encoder
from kafka_s3.objects.format import Format as Format
from kafka_s3.objects.format import Keeping as Keeping
from kafka_s3.objects.format import Pausing as Pausing
from kafka_s3.objects.text import TextStream as TextStream
from kafka_s3.spark import KafkaS3 as KafkaS3
from kafka_s3.spark import read_committed as read_committed

__version__: str
