"""`python -m kafka_s3` is the command `kafka-s3`."""

from kafka_s3.cli.main import main

main()
