"""How do records come back from a bucket to Kafka? Object after object in offset order, each record once, counted against the log.

`told` finds the objects, by the log or by their names, and `file_table` keeps what is known of them; `selection` says which are wanted;
`reading` and `values` turn their bytes into records again; `faithful` says beforehand what cannot come back as it was; `position` finds
how far an earlier run came; `run` writes.
"""
