"""An archive of the broker's loaded classes (class data sharing), which makes its start about twice as fast.

It is written by a broker that is started once for the purpose, after the download, and fits the very Java and
jars that it was made with. Nothing depends on it: a Java that writes none runs the broker without.
"""

import hashlib
import tempfile
from pathlib import Path

from windrow.embedded import jars, ports
from windrow.embedded.broker import JARS, Broker, Quorum
from windrow.embedded.folders import cache_folder, cached
from windrow.embedded.progress import say
from windrow.java import find_java, java_banner

ARCHIVE = "broker.jsa"


def options() -> tuple[str, ...]:
    """The JVM's options for a quick start."""
    place = cache_folder() / "classes" / f"{JARS.name}-{_fingerprint()}"
    archive = cached(place, _train) / ARCHIVE
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if archive.exists() else ()


def _fingerprint() -> str:
    """Of the Java and the jars' place: with another one the JVM would not take the archive."""
    java = find_java()
    made_with = f"{java_banner(java)}\n{java.resolve()}\n{jars.fetch(JARS)}"
    return hashlib.sha256(made_with.encode()).hexdigest()[:16]


def _train(part: Path) -> None:
    say("preparing the Kafka broker for quick starts (once) ...")
    with tempfile.TemporaryDirectory(prefix="windrow-kafka-") as folder:
        write = (f"-XX:ArchiveClassesAtExit={part / ARCHIVE}",)
        quorum = Quorum("AAAAAAAAAAAAAAAAAAAAAQ", {1: ports.free_port()}, Path(folder), write)
        with Broker(1, quorum, Path(folder, "broker-1"), {}, None) as broker:
            broker.known_brokers()
            broker.halt()
