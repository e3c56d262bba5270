#!/usr/bin/env bash
# A PostgreSQL server for the tests that want a real one: on Debian as root it is installed (without
# starting anything); elsewhere those tests are skipped and say so.
set -euo pipefail

if compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || command -v postgres >/dev/null; then
    echo "== PostgreSQL is there"
elif [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
    echo "== installing postgresql with apt-get (for the tests of the store on a server)"
    mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql
else
    echo "== no PostgreSQL server here: its tests will be skipped"
fi
