#!/bin/sh
# Measures how Holdfast and its peers scale with cores, within about SECONDS.
#
#     run.sh SECONDS [FOLDER]
#
# Results go to FOLDER (default: results, beside this script): scale.txt, scale.json and scale.svg,
# mariadb.txt and mariadb.json, and what was said meanwhile, *.log. SCALE_OPTIONS and SERVER_OPTIONS
# are appended to the options of the two measurements; if one of them is `skip`, that one is left
# out and the other has all the time.
set -u
HOLDFAST_ROOT=$(cd "$(dirname "$0")" && pwd) || exit 1
export HOLDFAST_ROOT PATH="$HOLDFAST_ROOT/tools:$PATH"
seconds=${1:-}
case $seconds in
'' | *[!0-9]*)
    echo "usage: run.sh SECONDS [FOLDER]" >&2
    exit 2
    ;;
esac
out=${2:-$HOLDFAST_ROOT/results}
mkdir -p "$out" || exit 1
scale=${SCALE_OPTIONS:-}
server=${SERVER_OPTIONS:-}
[ -x "$HOLDFAST_ROOT/tools/xtask" ] || server=skip
share=$((seconds * 45 / 100))
[ "$server" = skip ] && share=$seconds
failed=0

# What to measure, and the file of its results. The options are words: no quotes.
measure() {
    name=$1
    shift
    if "$@" >"$out/$name.txt" 2>"$out/$name.log"; then
        cat "$out/$name.txt"
    else
        failed=1
        echo "$name has failed:" >&2
        tail -n 20 "$out/$name.log" >&2
    fi
}

begun=$(date +%s)
if [ "$scale" != skip ]; then
    measure scale "$HOLDFAST_ROOT/tools/holdfast-compare" scale --within "$share" \
        --json "$out/scale.json" --picture "$out/scale.svg" $scale
fi
if [ "$server" != skip ]; then
    left=$((seconds - $(date +%s) + begun))
    [ "$left" -gt 0 ] || left=1
    measure mariadb "$HOLDFAST_ROOT/tools/xtask" mariadb bench --cores --as-is --within "$left" \
        --json="$out/mariadb.json" $server
fi
exit $failed
