"""What became of a record, and where does an object come from? What the log says of one offset or one key, with the rules behind it.

`inquiry` answers for a key, `offset` for a record, and asks the pipeline about one that is still in Kafka; `answer` is what comes out.
"""
