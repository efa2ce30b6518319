"""How is a running Connect sink taken over without losing or doubling a record?

`keys` reads what the names of its objects say, `counts` how many records one holds, `survey` puts that beside the consumer group and
Kafka, `decision` chooses the offset to go on at, `takeover` writes it as the first position of the commit log.
"""
