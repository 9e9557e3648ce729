#!/bin/sh
# Makes bench/data/city.throngtrace, the project's own recording: 90 s of about 700 cars on a grid of 10 x 10 blocks, 20 Hz.
# All seeds are fixed. Needs SUMO (Debian 12 has 1.15.0, which made the stored file) and a built tools/throng_trace.
set -eu
if [ "${1:-}" = "--help" ]; then
    echo "usage: tools/make_recording.sh [OUT]   (default bench/data/city.throngtrace; BUILD=directory of the build, default build)"
    exit 0
fi
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/bench/data/city.throngtrace}
converter=${BUILD:-$root/build}/tools/throng_trace
if [ ! -x "$converter" ]; then
    echo "make_recording: $converter is missing; build first" >&2
    exit 2
fi
if ! command -v sumo >/dev/null || ! command -v netgenerate >/dev/null; then
    if [ "$(id -u)" = 0 ]; then as_root=""; else as_root="sudo -n"; fi
    if ! $as_root apt-get install -y --no-install-recommends sumo sumo-tools >/dev/null 2>&1; then
        echo "make_recording: needs the packages sumo and sumo-tools" >&2
        exit 2
    fi
fi
export SUMO_HOME=/usr/share/sumo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
netgenerate --grid --grid.number 11 --grid.length 108 --default.lanenumber 1 --seed 7 --tls.guess true -o net.xml >/dev/null
python3 "$SUMO_HOME/tools/randomTrips.py" -n net.xml -o trips.xml --seed 7 -b 0 -e 390 -p 0.27 \
    --fringe-factor 1 --min-distance 500 >/dev/null
sumo -n net.xml -r trips.xml --xml-validation never --xml-validation.routes never --seed 7 \
    --step-length 0.05 --begin 0 --end 390 --time-to-teleport 60 --no-step-log true \
    --device.fcd.begin 300 --fcd-output fcd.xml --fcd-output.attributes x,y,angle,speed >/dev/null
"$converter" convert fcd.xml "$out"
"$converter" info "$out"
