#!/usr/bin/env bash
# The database servers for the tests that want real ones, PostgreSQL and MariaDB: on Debian as root they are
# installed (without starting anything); elsewhere those tests are skipped and say so.
set -euo pipefail

missing=()
compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
# The -core packages are the server without its service; the client's brings what mariadb-install-db needs.
PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null && command -v my_print_defaults >/dev/null ||
    missing+=(mariadb-server-core mariadb-client-core)

if [ ${#missing[@]} = 0 ]; then
    echo "== PostgreSQL and MariaDB are there"
elif [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
    echo "== installing ${missing[*]} with apt-get (for the tests of the store on a server)"
    mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    echo "== not here: ${missing[*]}; their tests will be skipped"
fi
