"""Which directory does a record go to, and which time is it of?"""
