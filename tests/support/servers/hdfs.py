"""A small HDFS (Hadoop's MiniDFSCluster: one name node, one data node) in a JVM of its own."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.servers.hadoop_jars import hdfs_jars

WHY_NOT = (
    None
    if hdfs_jars()
    else "the jar of a small HDFS was not fetched: python tests/support/servers/hadoop_jars.py"
)


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS: its URI, a JVM and settings to reach it with, and Hadoop's MiniDFSCluster."""

    uri: str
    jvm: Any
    conf: Any
    mini: Any
    gateway: Any

    def stop_name_node(self) -> None:
        """Stop the name node; connections to it are refused."""
        self.mini.shutdownNameNode(0)

    def start_name_node(self) -> None:
        """Start it again at the same port, and wait until files can be written."""
        no_words = self.gateway.new_array(self.jvm.java.lang.String, 0)
        self.mini.restartNameNode(0, True, no_words)


@contextmanager
def hdfs_server(home: Path) -> Iterator[Hdfs]:
    """Run an HDFS of one's own below ``home``; it is empty."""
    import pyspark  # noqa: PLC0415
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # noqa: PLC0415

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    wanted = ("hadoop-client-", "slf4j-api", "jcl-over", "log4j-", "commons-", "py4j-")
    classpath = [str(jar) for jar in (*hdfs_jars(), *jars) if jar.name.startswith(wanted)]
    py4j = next(jar for jar in jars if jar.name.startswith("py4j-"))
    port, process = launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join(classpath),
        javaopts=["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dhadoop.root.logger=ERROR"],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        jvm: Any = gateway.jvm
        conf = jvm.org.apache.hadoop.hdfs.HdfsConfiguration()
        conf.set("hdfs.minidfs.basedir", str(home))
        conf.set("dfs.permissions.enabled", "false")
        for what in ("hosts", "groups"):  # Hive's server acts for its users
            conf.set(f"hadoop.proxyuser.{getpass.getuser()}.{what}", "*")
        builder = getattr(jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf)
        cluster = builder.numDataNodes(1).build()
        cluster.waitClusterUp()
        yield Hdfs(f"hdfs://127.0.0.1:{cluster.getNameNodePort()}", jvm, conf, cluster, gateway)
    finally:
        gateway.shutdown()
        process.kill()
        process.wait()
