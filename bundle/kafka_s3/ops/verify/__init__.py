"""Is every record exactly once where the commit log says? An independent check of log, objects and Kafka.

`claims` is what the log claims, `form` what objects hold (by readers of its own, not the writer's code), `expected` what Kafka's records
leave in them; `audit` looks at bucket and Kafka, and compares.
"""
