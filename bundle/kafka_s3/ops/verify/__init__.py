"""Is every record exactly once where the commit log says? An independent check of log, objects and Kafka.

`claims` reads what the log claims, in `segments`; `objects` what objects hold (by readers of its own, not the writer's code); `bounds` and
`evidence` what Kafka has. `check` compares them without asking anyone; `audit` verifies a sink, `partition` one topic-partition of it.
"""
