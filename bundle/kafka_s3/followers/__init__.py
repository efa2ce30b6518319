"""What follows the commit log? What works after an entry, from the log alone; no follower can hold up the sink or another follower.

====================================  ==========================================================================================
`delta/`                              a Delta table for each topic; what looks after it (check, rebuild, maintain); how tables follow
`iceberg/`                            an Iceberg table for each topic, by the same follower and planner
`state`                               a table with the newest value of every key: what is merged, and when
`ddl/`                                how query engines see a topic: its columns, directories and statements
`glue`                                the tables of AWS Glue's Data Catalog
`done_markers`                        an object in each directory of a time that is complete
`notifications`                       a message for each commit, to a webhook, SNS, SQS or a plugin
`tagging`, `group_offsets`            tags of objects; positions as offsets of a consumer group
`dead_letter_reporters`               dead letters in Kafka's topic, and in the log of the process
`log_tables`                          the log's own tables, by which a long log is read quickly
`progress`                            how far a follower has come, as an object beside the log
`dead_letter_source`                  dead letters as records again, for a replay
====================================  ==========================================================================================

A new one is one class and three small edits:

1. The class has the members of `engine.loop.followers.Follower`: a `name`, and `catch_up(log)`, which brings it up to the last published
   entry. `catch_up` is idempotent by entry: it notes how far it has come (`progress`), and after a crash it does the same again. It may
   raise any SinkError, and is then called again; before it writes where another driver could, it asks `log.check_owner`.
2. One that has work without any entry has `due`, one whose failure stops the sink has `must_succeed`, one that reports single dead letters
   has `report`.
3. Its keys get rows in `connect/config/options/ours.py` and rules in `connect/config/rules/followers.py`.
4. `run/wiring/followers.py::followers_of` makes it, in its place in the order. A library that takes long to load is imported there.
"""
