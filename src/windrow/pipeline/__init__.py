"""The outbox and transactional Kafka as Spark data sources, to compose pipelines of one's own with.

`register(spark)` makes two formats known to a session: `outbox`, to read from, and `windrow-kafka`, to write to. On the
consumers' side, `deduplicate` tells messages by the inbox's ids, and `Upsert` brings batches into a database once.
"""

from windrow.extras import needed

with needed("relay"):
    from pyspark.sql import SparkSession

    from windrow.pipeline.identity import deduplicate, message_id
    from windrow.pipeline.sink import KafkaSink
    from windrow.pipeline.source import OutboxSource
    from windrow.pipeline.upsert import Upsert

__all__ = ["Upsert", "deduplicate", "message_id", "register"]


def register(spark: SparkSession) -> None:
    """Make the formats `outbox` and `windrow-kafka` known to a session; also over Spark Connect."""
    spark.dataSource.register(OutboxSource)
    spark.dataSource.register(KafkaSink)
