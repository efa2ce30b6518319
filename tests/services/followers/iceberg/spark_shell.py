"""Runs SQL of another writer, a statement a line of standard input, each answered by a line of JSON: its rows, or why it failed.

python -m tests.services.followers.iceberg.spark_shell S3_URL STATEMENT...: those of `kafka-s3 ddl --engine spark`
"""

from __future__ import annotations

import json
import os
import sys

from kafka_s3.run.java.java import find_java
from tests.services.followers.iceberg.spark_reader import session

if __name__ == "__main__":
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = session(sys.argv[1], sys.argv[2:])
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            found = {"rows": [row.asDict(recursive=True) for row in spark.sql(line).collect()]}
        except Exception as error:
            found = {"failed": str(error)[:2000]}
        print(json.dumps(found, default=str), flush=True)
    spark.stop()
