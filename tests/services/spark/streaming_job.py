"""A user's job: committed records of a sink into a Delta table, until somebody kills it. `python streaming_job.py CONFIG TOPIC FOLDER`"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_s3.run.spark.session import delta_session
from kafka_s3.spark import register


def main(config: str, topic: str, folder: Path) -> None:
    spark = delta_session(name="streaming job", cores="2", warehouse=folder / "warehouse")
    orders = (
        spark.readStream.format(register(spark, config))
        .options(topic=topic, maxEntriesPerTrigger=25)
        .schema("n long, _partition int, _offset long, _entry long")
        .load()
    )
    query = orders.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query.start(str(folder / "table")).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
