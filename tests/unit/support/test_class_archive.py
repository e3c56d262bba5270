"""The archive of classes that JVMs of tests start with: one that does not fit is ignored, without a word."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.servers.class_archive import java_options


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
@pytest.mark.parametrize("name", ["nowhere.jsa", "bro'ken one.jsa"])
def test_a_jvm_starts_without_an_archive_that_does_not_fit(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    if name != "nowhere.jsa":
        archive.write_bytes(b"no archive" * 1000)
    options = shlex.split(java_options(archive))
    assert (f"-XX:SharedArchiveFile={archive}" in options) == archive.exists()
    done = subprocess.run(["java", *options, "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout.split()[0], done.stderr) == ("openjdk", "")
