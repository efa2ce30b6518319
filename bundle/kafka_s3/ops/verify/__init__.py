"""Is every record exactly once where the commit log says? An independent check of log, objects and Kafka.

`claims` is what the log claims, `bucket` what the bucket has of it, and `objects` what objects hold (by readers of its own, not the
writer's code); `evidence` is what Kafka has. `check` compares them without asking anyone; `audit` verifies a sink.
"""
