"""Fetch real Hive from Maven Central: python tests/interop/hive_install.py [--programs | VERSION...]. Safe to repeat.

Needs Maven and a JDK 17; on Debian as root both are installed (``--programs``: only these). What Maven brings is compared
with the SHA-256 in ``hive/jars-VERSION.txt`` and, for the connector to S3, ``hive/s3a-VERSION.txt``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent / "hive"
VERSIONS = ("3.1.3", "4.0.1")
_CLASSES = ("Loader", "PlainFiles", "Listener")
_NAMES = {"SubLists-3.1.3.java": "SerializationUtilities$ArrayListSubListSerializer"}
_SCHEMA_SUMS = {
    "3.1.3": "5e0e447ee390e6c2eb2383f7d8a2fa8c17b509f7610f2e3fbdf06ae7aaeb8f4f",
    "4.0.1": "ccc2f70ade144d43cd48526bdf60328119e872c93ca92f398dcbe31ad54a969d",
}
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_SCHEMAS = {  # which archive holds the metastore's schema, and its name in there
    "3.1.3": ("org.apache.hive:hive-standalone-metastore:3.1.3:tar.gz:bin", "hive-schema-3.1.0.postgres.sql"),
    "4.0.1": (
        "org.apache.hive:hive-standalone-metastore-server:4.0.1:tar.gz:bin",
        "hive-schema-4.0.0.postgres.sql",
    ),
}
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>interop</groupId><artifactId>hive</artifactId><version>{version}</version>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""


class NotFetchedError(Exception):
    """Maven did not bring what it was asked for: mostly, that there is no network."""


def home(version: str) -> Path:
    """Return where a version is, or goes."""
    root = os.environ.get("HIVEACID_HIVE_HOME") or Path.home() / ".cache" / "hiveacid-hive"
    return Path(root).expanduser() / version


def java_home() -> Path | None:
    """Return a JDK 17: Hive runs on no newer one."""
    candidates = [os.environ.get("JAVA_HOME"), *sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))]
    for candidate in filter(None, candidates):
        javac = Path(str(candidate)) / "bin" / "javac"
        if javac.exists():
            said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
            if re.search(r"javac 17\b", said.stdout + said.stderr):
                return Path(str(candidate))
    return None


def is_installed(version: str) -> bool:
    """Tell whether a version is there, with the classes that are wanted by now."""
    made = home(version) / "classes" / "interop"
    return _is_fetched(version) and all((made / f"{one}.class").exists() for one in _CLASSES)


def _is_fetched(version: str) -> bool:
    return (home(version) / "classpath.txt").exists()


def jars(version: str, of: str = "jars") -> dict[str, str]:
    """Return what goes on the class path, in order, and its SHA-256; ``of``: a list in ``hive/``."""
    lines = (HERE / f"{of}-{version}.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if line.strip() and not line.startswith("#"))


def s3a_jars(version: str) -> list[Path]:
    """Return the jars that let a version reach ``s3a://``; none where they were not fetched."""
    paths = _paths(version, "s3a")
    return paths if all(path.exists() for path in paths) else []


def install(version: str) -> None:
    """Fetch the jars and the schema."""
    place = home(version)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    paths = _bring(version, "jars")
    _schema(version, place)
    _verify(place / "schema.sql", _SCHEMA_SUMS[version])
    _compile(version)
    lines = [str(path) for path in (place / "conf", place / "classes", *paths)]
    (place / "classpath.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _bring(version: str, of: str) -> list[Path]:
    """Fetch the jars of a list; return them."""
    place, paths = home(version), _paths(version, of)
    dependencies = "".join(_dependency(one) for one in jars(version, of))
    pom = place / "pom.xml"
    pom.write_text(_POM.format(version=version, dependencies=dependencies), encoding="utf-8")
    output = f"-DoutputDirectory={paths[0].parent}"
    _maven(place, f"{_PLUGIN}:copy-dependencies", "-f", str(pom), output)
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise NotFetchedError(f"Maven did not bring {', '.join(missing)}")
    for path, expected in zip(paths, jars(version, of).values(), strict=True):
        _verify(path, expected)
    return paths


def _paths(version: str, of: str = "jars") -> list[Path]:
    folder = home(version) / ("lib" if of == "jars" else of)
    return [folder / f"{'-'.join(one.split(':')[1:])}.jar" for one in jars(version, of)]


def _compile(version: str) -> None:
    """Compile the classes of ours; the jars are there."""
    place, paths = home(version), _paths(version)
    sources = [*(HERE / f"{one}.java" for one in _CLASSES), *_own(version, place)]
    classes = place / "classes"
    javac = java_home() / "bin" / "javac"  # type: ignore[operator]
    command = [javac, "-nowarn", "-cp", ":".join(map(str, paths)), "-d", classes, *sources]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _verify(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise SystemExit(f"{path} has the SHA-256 {found}, not {expected}: it is not the file that was tried")


def _own(version: str, place: Path) -> list[Path]:
    """Copy the classes that only one version needs to names that the compiler takes."""
    sources = []
    for source in HERE.glob(f"*-{version}.java"):
        copy = place / f"{_NAMES.get(source.name, source.name.partition('-')[0])}.java"
        shutil.copyfile(source, copy)
        sources.append(copy)
    return sources


def _dependency(coordinates: str) -> str:
    group, artifact, version, classifier = [*coordinates.split(":"), ""][:4]
    return _DEPENDENCY.format(
        group, artifact, version, f"<classifier>{classifier}</classifier>" if classifier else ""
    )


def _schema(version: str, place: Path) -> None:
    archive, name = _SCHEMAS[version]
    folder = place / "archive"
    _maven(place, f"{_PLUGIN}:copy", f"-Dartifact={archive}", f"-DoutputDirectory={folder}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as tar:
        member = next(one for one in tar if one.name.endswith(f"/postgres/{name}"))
        held = tar.extractfile(member)
        assert held is not None
        (place / "schema.sql").write_bytes(held.read())
    shutil.rmtree(folder)


def _maven(place: Path, *arguments: str) -> None:
    log = place / "maven.log"
    command = ["mvn", "-B", "-q", "-ntp", *arguments]
    with log.open("ab") as output:
        done = subprocess.run(
            command,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            env={**os.environ, "JAVA_HOME": str(java_home())},
        )
    if done.returncode:
        raise NotFetchedError(f"Maven failed:\n{log.read_text(errors='replace')[-2000:]}")


def _programs() -> bool:
    """Install what is missing; tell whether all is there."""
    missing = [] if shutil.which("mvn") else ["maven"]
    missing += [] if java_home() else ["openjdk-17-jdk-headless"]
    if not missing:
        return True
    if not Path("/etc/debian_version").exists() or os.geteuid():
        print(f"== not here: {' and '.join(missing)}; tests with real Hive will be skipped")  # noqa: T201 - a tool
        return False
    print(f"== installing {' '.join(missing)} with apt-get (to run Hive)", flush=True)  # noqa: T201 - a tool
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    subprocess.run(command, check=True, env=environment)
    return True


def main(wanted: list[str]) -> None:
    if not _programs() or wanted == ["--programs"]:
        return
    for version in wanted or VERSIONS:
        if is_installed(version) and s3a_jars(version):
            print(f"== Hive {version} is in {home(version)}")  # noqa: T201 - a tool
            continue
        if _is_fetched(version):
            _compile(version)
        else:
            print(f"== fetching Hive {version} ({len(jars(version))} jars, a minute or two)", flush=True)  # noqa: T201 - a tool
        _fetch(version)


def _fetch(version: str) -> None:
    """Install a version, the second time after a failure; without a network go on, and say so."""
    for left in (1, 0):
        try:
            if not _is_fetched(version):
                install(version)
            if not s3a_jars(version):
                _bring(version, "s3a")
        except NotFetchedError as error:
            after = "again" if left else "tests with this version will be skipped"
            print(f"== Hive {version} could not be fetched; {after}: {error}", flush=True)  # noqa: T201 - a tool
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
