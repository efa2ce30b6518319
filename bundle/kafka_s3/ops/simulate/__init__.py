"""What would a configuration make of some traffic? The product's own loop over a virtual clock, with requests counted and bytes dropped.

`traffic` is Kafka, made of a sample or of a rate; `bucket` counts requests and forgets content; `run` lets the time pass;
`table_requests` counts what Delta tables ask; `forecast` says what came of it in files, sizes, delays, requests and money.
"""
