"""Is every record exactly once where the commit log says? An independent check of log, objects and Kafka.

`claims` reads what the log claims, in `segments`; `objects` what objects hold (by readers of its own, not the writer's code); `scan` what
Kafka has. `check` compares them without asking anyone, and `audit` goes through a sink topic-partition by topic-partition.
"""
