"""How do records come back from a bucket to Kafka? Object after object in offset order, each record once, counted against the log.

`files` finds the objects, by the log or by their names; `plan` says what would be written, and what cannot come back as it was; `values`
turns rows into records again; `run` writes them, from where an earlier run stopped.
"""
