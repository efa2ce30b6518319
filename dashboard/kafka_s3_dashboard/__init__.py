"""Dashboard of kafka-s3: what it reads (`reading`), computes (`figures`), shares among pages (`page`) and shows (`views`).

`app.py` and `serve.py` beside this package start it.
"""
