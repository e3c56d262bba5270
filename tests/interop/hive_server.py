"""A Hive that runs: metastore and, where it is asked for, HiveServer2, each a process on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import escape

import psycopg
from hive_install import home, java_home

from support.servers.databases import PASSWORD, PostgresServer, free_port

_METASTORE = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_CLEANER, _NEVER = 300, 36_000_000  # milliseconds between two turns of the metastore's cleaner
_PATIENCE = 600.0  # seconds until a server takes connections
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.nio.charset",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/java.util.regex",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.sql/java.sql",
    "java.security.jgss/sun.security.krb5",
)
_LOGGING = """status = ERROR
appenders = f
appender.f.type = File
appender.f.name = f
appender.f.fileName = ${sys:interop.log}
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = %d{ISO8601} %5p [%t] %c{2}: %m%n
rootLogger.level = WARN
rootLogger.appenderRefs = f
rootLogger.appenderRef.f.ref = f
"""
# Nothing answers from statistics or a cache; nothing compacts or (unless it is wanted) cleans by itself; all engines run in the server.
_SETTINGS = """
javax.jdo.option.ConnectionURL=jdbc:postgresql://127.0.0.1:{postgres}/{database}
javax.jdo.option.ConnectionDriverName=org.postgresql.Driver
javax.jdo.option.ConnectionUserName=postgres
javax.jdo.option.ConnectionPassword={password}
hive.metastore.uris=thrift://127.0.0.1:{hms}
hive.metastore.port={hms}
metastore.thrift.port={hms}
hive.metastore.thrift.bind.host=127.0.0.1
metastore.thrift.bind.host=127.0.0.1
hive.metastore.warehouse.dir={warehouse}
metastore.warehouse.dir={warehouse}
hive.metastore.warehouse.external.dir={external}
metastore.warehouse.external.dir={external}
hive.metastore.schema.verification=false
hive.metastore.event.db.notification.api.auth=false
metastore.metastore.event.db.notification.api.auth=false
hive.metastore.authorization.storage.checks=false
hive.server2.thrift.bind.host=127.0.0.1
hive.server2.thrift.port={hs2}
hive.server2.authentication=NOSASL
hive.server2.enable.doAs=false
hive.server2.webui.port=0
hive.server2.logging.operation.enabled=false
hive.server2.metrics.enabled=false
hive.server2.tez.initialize.default.sessions=false
hive.scheduled.queries.executor.enabled=false
hive.async.log.enabled=false
hive.notification.event.poll.interval=0s
fs.defaultFS=file:///
fs.file.impl=interop.PlainFiles
hive.exec.scratchdir=file://{place}/tmp/scratch
hive.exec.local.scratchdir={place}/tmp/local
hive.downloaded.resources.dir={place}/tmp/resources
hive.user.install.directory=file://{place}/tmp/install
hive.querylog.location={place}/tmp/querylog
hadoop.tmp.dir={place}/tmp/hadoop
mapreduce.framework.name=local
mapreduce.client.completion.pollinterval=50
mapreduce.client.progressmonitor.pollinterval=50
hive.exec.counters.pull.interval=50
mapreduce.cluster.local.dir={place}/tmp/mr
hive.exec.submit.local.task.via.child=false
tez.local.mode=true
tez.local.mode.without.network=true
tez.ignore.lib.uris=true
tez.use.cluster.hadoop-libs=true
tez.runtime.optimize.local.fetch=true
tez.staging-dir={place}/tmp/tez
tez.am.resource.memory.mb=256
hive.tez.container.size=256
tez.runtime.io.sort.mb=32
tez.runtime.unordered.output.buffer.size-mb=16
tez.am.container.reuse.enabled=false
tez.counters.max=1000
mapreduce.job.counters.max=1000
hive.tez.exec.inplace.progress=false
hive.auto.convert.join.noconditionaltask.size=20000000
hive.execution.engine={engine}
hive.support.concurrency=true
hive.txn.manager=org.apache.hadoop.hive.ql.lockmgr.DbTxnManager
hive.exec.dynamic.partition=true
hive.exec.dynamic.partition.mode=nonstrict
hive.strict.managed.tables=false
metastore.create.as.acid=false
hive.create.as.insert.only=false
metastore.metadata.transformer.class={transformer}
hive.stats.autogather=true
hive.stats.column.autogather=false
hive.compute.query.using.stats=false
hive.query.results.cache.enabled=false
hive.fetch.task.conversion=none
hive.compactor.worker.threads={workers}
metastore.compactor.worker.threads={workers}
hive.compactor.worker.sleep.time=200ms
hive.compactor.worker.max.sleep.time=300ms
hive.compactor.cleaner.on={cleans}
metastore.compactor.cleaner.on={cleans}
hive.metastore.runworker.in=hs2
metastore.runworker.in=hs2
hive.compactor.initiator.on={initiator}
metastore.compactor.initiator.on={initiator}
hive.compactor.check.interval=2s
hive.txn.timeout={timeout}s
metastore.txn.timeout={timeout}s
hive.compactor.cleaner.run.interval={cleaner}ms
metastore.compactor.cleaner.run.interval={cleaner}ms
hive.compactor.delta.num.threshold=1000000
hive.compactor.delta.pct.threshold=1000000
hive.compactor.abortedtxn.threshold=1000000
metastore.compactor.abortedtxn.threshold=1000000
"""
# What ends silent transactions, where a test waits for it.
_REAPER = """
hive.timedout.txn.reaper.start=2s
hive.timedout.txn.reaper.interval=2s
metastore.timedout.txn.reaper.start=2s
metastore.timedout.txn.reaper.interval=2s
metastore.acid.housekeeper.interval=2s
hive.metastore.housekeeping.threads.on=true
metastore.housekeeping.threads.on=true
"""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LONG = 300  # seconds, Hive's own time-out of transactions
_OF_TRANSACTIONS = (
    "TXN_COMPONENTS",
    "COMPLETED_TXN_COMPONENTS",
    "HIVE_LOCKS",
    "COMPACTION_QUEUE",
    "COMPLETED_COMPACTIONS",
    "WRITE_SET",
    "TXN_TO_WRITE_ID",
    "NEXT_WRITE_ID",
    "MIN_HISTORY_LEVEL",
)


class HiveServers:
    """The servers of one version, with an empty warehouse and an empty metastore in ``postgres``."""

    def __init__(
        self,
        version: str,
        postgres: PostgresServer,
        *,
        timeout: int = _LONG,
        cleans: bool = False,
        initiates: bool = False,
        more: Mapping[str, str] = _NOTHING,
        java: Sequence[str] = (),
        root: str | None = None,
        jars: Sequence[Path] = (),
    ) -> None:
        self.settings, self._java = more, java  # settings on top of the others, options of all JVMs
        self.initiates = initiates  # whether 3.1's initiator is at work: at its start, it takes jobs back from dead workers
        self.cleans = cleans  # whether the metastore's cleaner is at work, as often as can be
        self.timeout = timeout  # seconds until a silent transaction is aborted
        self.version = version
        self.is_hive3 = version.startswith("3.")
        self._jars = jars  # put at the end of the class path
        self.place = Path(tempfile.mkdtemp(prefix=f"hiveacid-hive-{version}-"))
        self.root = root or f"file://{self.place}"  # of both warehouse directories
        self.hms_port, self.hs2_port = free_port(), free_port()
        self._postgres = postgres
        self.database = f"metastore_{version.replace('.', '')}_{self.hms_port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("warehouse", "external", "conf", "tmp", "hadoop/bin"):
            (self.place / name).mkdir(parents=True)
        postgres.make_database(self.database)
        schema = (home(version) / "schema.sql").read_bytes()
        with self.connection() as connection:
            connection.execute(schema)
        self._configure()

    @property
    def url(self) -> str:
        """Return the metastore's URL."""
        return f"thrift://127.0.0.1:{self.hms_port}?timeout=60"

    def connection(self) -> psycopg.Connection[tuple[object, ...]]:
        """Return a connection to the metastore's database."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self._postgres.port,
            user="postgres",
            password=PASSWORD,
            dbname=self.database,
            autocommit=True,
        )

    def forget_transactions(self) -> None:
        """Let transactions, locks, write ids and the queue begin anew, as in a new metastore."""
        tables = _OF_TRANSACTIONS if self.is_hive3 else (*_OF_TRANSACTIONS, "MIN_HISTORY_WRITE_ID")
        statements = [f'DELETE FROM "{name}"' for name in tables]
        statements += [
            'UPDATE "NEXT_LOCK_ID" SET "NL_NEXT" = 1',
            'UPDATE "NEXT_COMPACTION_QUEUE_ID" SET "NCQ_NEXT" = 1',
        ]
        if self.is_hive3:
            statements += ['DELETE FROM "TXNS"', 'UPDATE "NEXT_TXN_ID" SET "NTXN_NEXT" = 1']
            statements = [one.replace('"', "") for one in statements]  # there, names are in lower case
        else:
            statements += [
                'DELETE FROM "TXNS" WHERE "TXN_ID" > 0',
                """SELECT setval(pg_get_serial_sequence('"TXNS"', 'TXN_ID'), 1, false)""",
                """INSERT INTO "TXNS" ("TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_LAST_HEARTBEAT", "TXN_USER", "TXN_HOST")
                   VALUES (0, 'c', 0, 0, '', '') ON CONFLICT DO NOTHING""",
            ]
        with self.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def start_metastore(self) -> None:
        self._start(_METASTORE, "hms", self.hms_port, "400m")

    def start_another_metastore(self) -> int:
        """Start a second one on the same database; return its port."""
        port = free_port()
        self._start(_METASTORE, "hms2", port, "400m", "-p", str(port))
        return port

    @contextmanager
    def hanging_metastore(self) -> Iterator[None]:
        """Stop the metastore as it stands: it goes on taking connections, and answers nothing before the end."""
        self._processes[0].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes[0].send_signal(signal.SIGCONT)

    def restart_metastore(self) -> None:
        """Kill the metastore as a crash does, and start another one in its place."""
        self.kill_metastore()
        self.start_again()

    def kill_metastore(self) -> None:
        """Kill the metastore as a crash does; :meth:`start_again` must follow."""
        crashed = self._processes.pop(0)
        crashed.kill()
        crashed.wait(15)

    def start_again(self) -> None:
        """Start a metastore at the port and on the database of the killed one."""
        self.start_metastore()
        self._processes.insert(0, self._processes.pop())

    def start_hive_server(self) -> None:
        self._start("org.apache.hive.service.server.HiveServer2", "hs2", self.hs2_port, "1500m")

    def remove(self) -> None:
        """Stop the servers and delete all they made."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)
        shutil.rmtree(self.place, ignore_errors=True)

    def _configure(self) -> None:
        reaper = _REAPER if self.timeout < _LONG else ""
        text = (_SETTINGS + reaper).format(
            postgres=self._postgres.port,
            database=self.database,
            password=PASSWORD,
            hms=self.hms_port,
            hs2=self.hs2_port,
            place=self.place,
            warehouse=f"{self.root}/warehouse",
            external=f"{self.root}/external",
            engine="mr" if self.is_hive3 else "tez",
            # With its default, 4.0 makes tables that say 'transactional'='false' external ones.
            transformer=" ",
            cleaner=_CLEANER if self.cleans else _NEVER,
            cleans=str(self.cleans).lower(),
            timeout=self.timeout,
            workers=4 if self.is_hive3 else 1,  # one of 3.1 looks at the queue every ten seconds
            # 3.1 has no cleaner without it. It also forgets write ids of committed transactions every two seconds, which
            # writes the list of an old snapshot in another way.
            initiator=str((self.cleans or self.initiates) and self.is_hive3).lower(),
        )
        pairs = [line.split("=", 1) for line in text.splitlines() if line]
        if self.is_hive3:
            pairs.append(["hive.auto.convert.join", "false"])
        pairs += [list(pair) for pair in self.settings.items()]
        body = "".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>\n" for key, value in pairs
        )
        conf = self.place / "conf"
        # Hadoop itself looks into the second only, for what is said on top.
        for name in ("hive-site.xml", "core-site.xml") if self.settings else ("hive-site.xml",):
            (conf / name).write_text(
                f'<?xml version="1.0"?>\n<configuration>\n{body}</configuration>\n', encoding="utf-8"
            )
        for name in ("log4j2.properties", "hive-log4j2.properties"):
            (conf / name).write_text(_LOGGING, encoding="utf-8")
        lines = (home(self.version) / "classpath.txt").read_text(encoding="utf-8").splitlines()
        lines = [str(conf), *lines[1:], *map(str, self._jars)]
        (self.place / "classpath.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _start(self, main: str, name: str, port: int, heap: str, *arguments: str) -> None:
        java = java_home()
        assert java is not None
        user = pwd.getpwuid(os.geteuid()).pw_name
        foreign = ("HADOOP_", "HIVE_", "TEZ_", "YARN_", "JAVA_", "JDK_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        environment |= {
            "JAVA_HOME": str(java),
            "USER": user,
            "HADOOP_USER_NAME": user,
            "HADOOP_HOME": str(self.place / "hadoop"),
            "HIVE_CONF_DIR": str(self.place / "conf"),
        }
        command = [
            str(java / "bin" / "java"),
            "-XX:+UseSerialGC",
            f"-Xmx{heap}",
            *self._java,
            *(word for one in _OPENED for word in ("--add-opens", f"{one}=ALL-UNNAMED")),
            "-Duser.timezone=UTC",
            "-Djava.net.preferIPv4Stack=true",
            "-Djava.locale.providers=COMPAT,SPI",
            f"-Djava.io.tmpdir={self.place / 'tmp'}",
            f"-Dhadoop.home.dir={self.place / 'hadoop'}",
            f"-Dlog4j.configurationFile=file:{self.place / 'conf' / 'log4j2.properties'}",
            f"-Dinterop.log={self.place / name}.log",
            f"-Dderby.stream.error.file={self.place / 'derby.log'}",
            f"-Dinterop.classpath={self.place / 'classpath.txt'}",
            "-Djava.system.class.loader=interop.Loader",
            "-cp",
            str(home(self.version) / "classes"),
            main,
            *arguments,
        ]
        output = self.place / f"{name}.out"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                command,
                cwd=self.place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        self._processes.append(process)
        deadline = time.monotonic() + _PATIENCE
        while not _is_open(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{main} did not start:\n{output.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)


def _is_open(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(2)
        return one.connect_ex(("127.0.0.1", port)) == 0
