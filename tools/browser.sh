#!/usr/bin/env bash
# The browser that looks at pages in CI: on Debian as root Chromium is installed; elsewhere those looks are left out.
set -euo pipefail

if { command -v chromium >/dev/null && command -v chromedriver >/dev/null; } || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
    echo "== Chromium is there"
elif [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
    echo "== installing chromium with apt-get (to look at the documentation)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core
else
    echo "== not here: chromium; pages are not looked at"
fi
