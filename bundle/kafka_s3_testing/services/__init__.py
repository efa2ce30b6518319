"""How do the demo and the tests run on a bare machine? Java, a real Kafka broker and an S3 server, started from here.

Nothing in this package is used by a sink in production; it needs the extra `local`.
"""
