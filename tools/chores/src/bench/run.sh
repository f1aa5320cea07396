#!/bin/sh
# Measures how Holdfast and its peers scale with cores, within about SECONDS.
#
#     run.sh SECONDS [FOLDER]
#
# The steps in their order, with the variable that replaces the options of each; `skip` leaves the
# step out. The last one has the time that is left.
#
#     scale       SCALE_OPTIONS     operations by threads, beside the peers
#     recovery    RECOVERY_OPTIONS  recovery on all cores, then the same on one
#     sideload    SIDELOAD_OPTIONS  OLTP of 16 sessions beside a dump
#     sessions    SESSIONS_OPTIONS  1 to 256 sessions, with SECONDS from 3600 on up to 1,024
#     mariadb     SERVER_OPTIONS    sysbench on Holdfast and InnoDB
#
# Results go to FOLDER (default: results, beside this script): for each step NAME.txt, and NAME.log
# with what was said meanwhile; scale.json, scale.svg, sideload.json, sideload.html, sessions.json,
# sessions.html, mariadb.json.
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
out=$(cd "$out" && pwd) || exit 1

# The bars are about these numbers of threads, and connections in this order: short time is not
# spent on others.
threads='--threads 1,2,4,16,64'
sizes='--quick'
[ "$seconds" -ge 1800 ] && threads=''
[ "$seconds" -ge 3600 ] && sizes=''
scale=${SCALE_OPTIONS:-$threads}
recovery=${RECOVERY_OPTIONS:---tails-mib 1024}
sideload=${SIDELOAD_OPTIONS:-$sizes --threads 16}
sessions=${SESSIONS_OPTIONS:-$sizes}
server=${SERVER_OPTIONS:---threads 64,16,1,4,2,8,32,256 --seconds 1}
[ -x "$HOLDFAST_ROOT/tools/xtask" ] || server=skip
begun=$(date +%s)
failed=0

# So many hundredths of all the time.
share() {
    echo $((seconds * $1 / 100 + 1))
}

left() {
    left=$((seconds - $(date +%s) + begun))
    [ "$left" -gt 0 ] || left=1
    echo "$left"
}

# The name of a step, the most seconds for it, and its command.
measure() {
    name=$1
    most=$2
    shift 2
    timeout -k 5 "$most" "$@" >"$out/$name.txt" 2>"$out/$name.log"
    status=$?
    cat "$out/$name.txt"
    [ "$status" -eq 0 ] && return
    failed=1
    if [ "$status" -eq 124 ]; then
        echo "$name was ended: it takes longer than its share of $seconds s, $most s" >&2
    else
        echo "$name has failed:" >&2
        tail -n 20 "$out/$name.log" >&2
    fi
}

# An experiment of the lab. The options are words: no quotes.
lab() {
    name=$1
    most=$2
    shift 2
    measure "$name" "$most" "$HOLDFAST_ROOT/tools/holdfast" lab "$name" --dir "$out" \
        --json "$out/$name.json" --report "$out/$name.html" "$@"
}

# In memory, if there is room: the cores are measured, not the disk.
recoveries() {
    memory=/dev/shm
    free=$(df -Pk "$memory" 2>/dev/null | tail -n 1 | while read -r _ _ _ free _; do echo "$free"; done)
    [ "${free:-0}" -gt 6000000 ] || memory=$out
    folder=$(mktemp -d "$memory/holdfast-recovery.XXXXXX") && cd "$folder" || exit 1
    first=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
    measure recovery "$(share 10)" "$HOLDFAST_ROOT/tools/holdfast-sim" recovery "$@"
    measure recovery-one-core "$(share 10)" taskset -c "$first" \
        "$HOLDFAST_ROOT/tools/holdfast-sim" recovery "$@"
    cd "$out" && rm -rf "$folder"
}

if [ "$scale" != skip ]; then
    within=$(share 45)
    [ "$server" = skip ] && within=$(share 65)
    [ "$recovery$sideload$sessions$server" = skipskipskipskip ] && within=$seconds
    measure scale "$((within * 2 + 60))" "$HOLDFAST_ROOT/tools/holdfast-compare" scale --within "$within" \
        --json "$out/scale.json" --picture "$out/scale.svg" $scale
fi
[ "$recovery" = skip ] || recoveries $recovery
[ "$sideload" = skip ] || lab sideload "$(share 10)" $sideload
[ "$sessions" = skip ] || lab sessions "$(share 15)" $sessions
if [ "$server" != skip ]; then
    within=$(left)
    measure mariadb "$((within * 2 + 60))" "$HOLDFAST_ROOT/tools/xtask" mariadb bench --cores --as-is \
        --within "$within" --json="$out/mariadb.json" $server
fi
exit $failed
