"""How is a running Connect sink taken over without losing or doubling a record?

`decision` chooses the offset to go on at; `takeover` collects what it needs to know, and writes the offset as the log's first position.
"""
