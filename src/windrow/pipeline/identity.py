"""Messages as Spark's Kafka source reads them, told apart as the inbox tells them.

The id is made of columns alone (`topic`, `partition`, `offset`, `headers`), so that it needs no Python worker, and is
byte for byte what `windrow.inbox` makes of the same message.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, functions

from windrow.inbox.identity import LONGEST

_ID: Final = "windrow_message_id"


def message_id() -> Column:
    """The id of a row's message, as bytes. Read the headers along: `option("includeHeaders", "true")`."""
    sequence, source = _header("x-sequence"), _header("x-source")
    event, origin = _header("ce_id"), _header("ce_source")
    topic = _bytes(functions.col("topic"))
    is_number = functions.decode(sequence, "UTF-8").rlike("^[0-9]*[1-9][0-9]*$")
    length = _bytes(functions.octet_length(origin).cast("string"))
    place = functions.concat_ws(
        ":",
        functions.lit("at"),
        "topic",
        functions.col("partition").cast("string"),
        functions.col("offset").cast("string"),
    )
    made = (
        functions.when(is_number & source.isNotNull(), _joined("outbox:", sequence, ":", topic, ":", source))
        .when(
            (functions.octet_length(event) > 0) & (functions.octet_length(origin) > 0),
            _joined("ce:", length, ":", origin, ":", event),
        )
        .otherwise(_bytes(place))
    )
    return functions.when(
        functions.octet_length(made) > LONGEST, _joined("sha256:", _bytes(functions.sha2(made, 256)))
    ).otherwise(made)


def deduplicate(frame: DataFrame, within: str = "1 hour", time: str = "timestamp") -> DataFrame:
    """The messages without those that came before. In a stream, what came up to `within` ago is remembered.

    `time` is the messages' own. In a stream, a message that is later than `within` behind the latest is dropped.
    """
    named = frame.withColumn(_ID, message_id())
    if frame.isStreaming:
        once = named.withWatermark(time, within).dropDuplicatesWithinWatermark([_ID])
    else:
        once = named.dropDuplicates([_ID])
    return once.drop(_ID)


def _header(name: str) -> Column:
    """The last header of the name: the relay's own stand behind the others."""
    return functions.try_element_at(functions.filter("headers", lambda each: each["key"] == name), functions.lit(-1))[
        "value"
    ]


def _joined(*parts: str | Column) -> Column:
    return functions.concat(*(_bytes(functions.lit(each)) if isinstance(each, str) else each for each in parts))


def _bytes(text: Column) -> Column:
    return functions.encode(text, "UTF-8")
