"""Which test file comes when, where several workers share them (``--dist loadfile``): none idles at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

# Longest first (tens of seconds to minutes each), but those that start processes of their own between others:
# side by side they would wait for each other.
LONGEST = (
    "sql/test_scripts.py",
    "cluster/test_cluster.py",
    "spark/test_object_store.py",
    "spark/test_stream_source.py",
    "crash/test_crash.py",
    "hostile/test_parameter_values.py",
    "spark/test_search_argument.py",
    "crash/test_services.py",
    "spark/test_planning_by_records.py",
    "spark/test_random_history.py",
    "spark/test_random_interfaces.py",
    "crash/test_object_store_kill.py",
    "spark/test_documents.py",
    "spark/test_serve.py",
    "contract/test_mariadb.py",
    "spark/test_data_source.py",
    "crash/test_kill.py",
    "spark/test_compaction.py",
    "spark/test_bad_input.py",
    "spark/test_hive_support.py",
    "spark/test_narrowing.py",
    "crash/test_crash_files.py",
    "spark/test_corpus.py",
    "crash/test_stream_crash.py",
    "spark/test_arrow.py",
    "spark/test_side_by_side.py",
    "crash/test_soak.py",
    "smoke/test_smoke.py",
    "spark/test_stream_writer.py",
    "spark/test_server_stores.py",
    "spark/test_shell.py",
    "spark/test_streaming.py",
    "spark/test_large_writes.py",
    "spark/test_odd_names.py",
    "spark/test_native.py",
    "spark/test_layouts.py",
    "spark/test_evolution.py",
    "spark/test_stream_sink.py",
    "spark/test_cli.py",
)
_WITH_SPARK = frozenset({"cluster", "crash", "hostile", "smoke", "spark", "sql"})


def places(files: Sequence[str]) -> list[int]:
    """Say in which order tests are to come, given the file of each (below ``tests``): their places in ``files``.

    First ``LONGEST``, then what needs Spark, then the rest, files of many tests first. A file's tests stay together
    and in order.
    """
    tests = Counter(files)
    named = {file: place for place, file in enumerate(LONGEST)}

    def rank(place: int) -> tuple[int, bool, int, str]:
        file = files[place]
        return (
            named.get(file, len(named)),
            file.partition("/")[0] not in _WITH_SPARK,
            -tests[file],
            file,
        )

    return sorted(range(len(files)), key=rank)
