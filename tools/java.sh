#!/usr/bin/env bash
# Make sure that there is a Java that Spark can use (17 or newer); say what to install where there is not.
# On Debian (or Ubuntu) as root it is installed.
set -euo pipefail

package=openjdk-17-jre-headless

java_command() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

# Prints the feature version, 8 for "1.8.0_402", 17 for "17.0.15"; nothing where there is no working Java.
java_version() {
    local java
    java="$(java_command)"
    if [ -n "$java" ]; then
        "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
    fi
}

good() {
    local version
    version="$(java_version)"
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

if ! good && [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
    echo "== installing $package with apt-get (Spark needs Java 17 or newer)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
fi
if good; then
    echo "== Java $(java_version): $(java_command)"
    exit 0
fi
found="$(java_version)"
{
    echo "error: Spark needs Java 17 or newer; found ${found:-none}."
    echo "  Debian, Ubuntu:  apt-get install $package"
    echo "  Fedora:          dnf install java-17-openjdk-headless"
    echo "  macOS:           brew install --cask temurin@17"
    echo "  or set JAVA_HOME to one that is installed."
} >&2
exit 1
