"""Build a release and look at it as those do who install it: make release-check.

The wheel and the source archive are built twice, from two copies of the commit, and have to be equal. The wheel is installed
with the newest packages that its requirements allow, in an environment that has nothing else. There it has to run without Spark.
What the release holds, its sizes, its description and the licences of what it brings along are compared with limits; a bill
of materials (CycloneDX) is written beside it. All of it ends in dist/.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
MOST_BYTES = {".whl": 1_500_000, ".gz": 12_000_000}
# Licences that a user of an Apache-licensed library takes along without a second thought.
LICENCES = re.compile(
    r"(?:Apache|BSD|MIT|ISC|PSF|Python Software Foundation|0BSD|Zlib|CC0|Mozilla Public License 2|MPL-2)",
    re.IGNORECASE,
)
# What a user without Spark does first, in the environment of the wheel alone.
FIRST_STEPS = """
import sys, hiveacid
from hiveacid.errors import HiveAcidError
assert hiveacid.__version__ == sys.argv[1], hiveacid.__version__
try:
    hiveacid.open(sys.argv[2]).table("nothing")
except HiveAcidError as error:
    print(f"{type(error).__name__}: {error}")
else:
    sys.exit("a table that nobody made was opened")
"""


def main() -> None:
    """Run all steps; the first that fails ends the program with its reason."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = str(project["version"])
    _check_version(version)
    if _output("git", "status", "--porcelain", "--untracked-files=no"):
        sys.exit("release-check: the work tree has changes that no commit has; a release is made of a commit")
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (_build(Path(scratch) / name) for name in ("first", "second"))
        _check_equal(first, second)
        for path in first:
            DIST.mkdir(exist_ok=True)
            shutil.copy2(path, DIST)
        _check_content(version)
        print("== description", flush=True)
        subprocess.run([TOOLS / "twine", "check", "--strict", *map(str, sorted(DIST.iterdir()))], check=True)
        _check_installed(Path(scratch) / "bare", version)
    for path in sorted(DIST.iterdir()):
        print(
            f"{path.stat().st_size:>10,} bytes  {hashlib.sha256(path.read_bytes()).hexdigest()}  dist/{path.name}"
        )
    if "urls" not in project:
        print("== pyproject.toml has no [project.urls]: add them before the first publication")
    print(f"== release {version} is fit to be published")


def _check_version(version: str) -> None:
    print(f"== version {version}", flush=True)
    for name, pattern in (
        ("src/hiveacid/__init__.py", rf'__version__ = "{re.escape(version)}"'),
        ("CHANGELOG.md", rf"## {re.escape(version)}\b"),
        ("CITATION.cff", rf"version: {re.escape(version)}\b"),
    ):
        if not re.search(pattern, (ROOT / name).read_text(encoding="utf-8")):
            sys.exit(f"release-check: {name} does not name version {version} of pyproject.toml")


def _build(place: Path) -> list[Path]:
    """Build the commit in a directory of its own; return the wheel and the source archive."""
    print(f"== build ({place.name})", flush=True)
    source, built = place / "source", place / "dist"
    source.mkdir(parents=True)
    archive = place / "source.tar"
    subprocess.run(["git", "archive", "--output", archive, "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    moment = {"SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct")}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source)]
    subprocess.run(command, env={**os.environ, **moment}, check=True, stdout=subprocess.DEVNULL)
    return sorted(built.iterdir())


def _check_equal(first: list[Path], second: list[Path]) -> None:
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            sys.exit(f"release-check: two builds of one commit differ in {one.name}")


def _check_content(version: str) -> None:
    print("== content", flush=True)
    (wheel,), (archive,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    for path in (wheel, archive):
        most = MOST_BYTES[path.suffix]
        if path.stat().st_size > most:
            sys.exit(f"release-check: {path.name} has {path.stat().st_size:,} bytes, more than {most:,}")
    installed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {name.removeprefix("src/") for name in _output("git", "ls-files", "src/hiveacid").split()}
    about = f"hiveacid-{version}.dist-info/"
    others = {name for name in installed if not name.startswith(about)}
    if others != wanted or f"{about}licenses/LICENSE" not in installed:
        sys.exit(
            f"release-check: the wheel differs from src in {sorted(others ^ wanted)[:10]}, or lacks LICENSE"
        )
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    lacking = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "Makefile"} - names
    if lacking:
        sys.exit(f"release-check: the source archive lacks {sorted(lacking)}")


def _check_installed(place: Path, version: str) -> None:
    print("== a new environment, with nothing but the wheel and what it asks for", flush=True)
    (wheel,) = DIST.glob("*.whl")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "install", "--quiet", wheel], check=True)
    warehouse = place / "warehouse"
    warehouse.mkdir()
    subprocess.run([place / "bin" / "hiveacid", "--version"], check=True)
    subprocess.run([python, "-c", FIRST_STEPS, version, warehouse], check=True)
    print("== licences of what it brings along", flush=True)
    found = json.loads(_output(TOOLS / "pip-licenses", f"--python={python}", "--format=json", "--from=mixed"))
    for package in found:
        name, licence = package["Name"], package["License"]
        print(f"{name} {package['Version']}: {licence.splitlines()[0]}")
        if not LICENCES.search(licence):
            sys.exit(f"release-check: {name} has the licence {licence}, which LICENCES does not allow")
    print("== bill of materials", flush=True)
    bill = DIST / f"hiveacid-{version}.cdx.json"
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "pip"], check=True)  # no part of the release
    subprocess.run(
        [TOOLS / "cyclonedx-py", "environment", "--output-reproducible", "-o", bill, python], check=True
    )
    listed = {
        component["name"].lower() for component in json.loads(bill.read_text(encoding="utf-8"))["components"]
    }
    missing = {package["Name"].lower() for package in found} - listed - {"pip", "setuptools"}
    if missing:
        sys.exit(f"release-check: the bill of materials lacks {sorted(missing)}")


def _output(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
