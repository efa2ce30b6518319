"""How do records come back from a bucket to Kafka? Object after object in offset order, each record once, counted against the log.

`stored` finds the objects, by the log or by their names; `reading` and `values` turn their bytes into records again; `faithful` says
beforehand what cannot come back as it was; `position` finds how far an earlier run came; `run` writes.
"""
