"""How do records come back from a bucket to Kafka? Object after object in offset order, each record once, counted against the log.

`files` finds the objects, by the log or by their names, and turns rows into records again; `plan` says what would be written, and does.
"""
