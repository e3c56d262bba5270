#!/usr/bin/env bash
# Compile requirements/*.in into requirements/*.txt: exact versions, with hashes for every platform,
# and without the address of any index (whoever installs, uses their own). --upgrade takes newer versions.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
[ -n "${UV:-}" ] || make --silent --directory .. .venv/stamps/compile
uv="${UV:-../.venv/bin/uv}"
for name in build runtime test arrow lint docs demo compile spark-3.5 spark-4.0 bench clients release; do
    echo "== requirements/$name.txt"
    "$uv" pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-annotate --quiet --custom-compile-command tools/compile_requirements.sh \
        "$@" --output-file "$name.txt" "$name.in"
done
if grep -n -i -E '://|--(extra-)?index-url|--find-links' ./*.txt; then
    echo "error: a compiled file names an index" >&2
    exit 1
fi
