"""Tests and demos of kafka-s3: a pytest plugin, sinks that run over given records, and local services.

pytest finds the fixtures of `plugin` by itself when this distribution is installed; nothing starts before a test asks for it.
`services` are a Kafka broker, an S3 server and a schema registry for one machine. Nothing that runs in production imports this package.
"""

from typing import Final

__version__: Final = "0.2.0.dev0"
"""The version of the product that this distribution belongs to, and the only place where this distribution's is written."""
