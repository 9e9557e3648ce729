#!/usr/bin/env python3
"""What encoding costs hardly grows with the number of clients that see the same: crowd_encodes_test.py THRONG_BENCH FEW MANY.

Encoding a crowd for MANY clients may come to at most 1.5 times what it comes to for FEW. That is said of CPU time, which no test can
measure on a machine with other work. Encode does one thing for each key (look up its rows, write a head), and otherwise what the bits
demand that it writes: so both are counted, `encodes` and `encoded_bytes`, and the bound holds for each, as it then does for any mix of
the two. What every client costs is shown to grow as clients do, so that the bound says something. docs/tuning.md has the CPU times.
"""
import json
import os
import subprocess
import sys
import tempfile

MOST = 1.5


def figures(program, clients):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'run.json')
        subprocess.run([program, '--scenario', 'crowd', '--clients', str(clients), '--quick', '--no-baselines', '--workers', '2',
                        '--json', path], check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding='utf-8') as file:
            return json.load(file)['runs'][0]


def main():
    program, counts = sys.argv[1], [int(text) for text in sys.argv[2:4]]
    few, many = (figures(program, clients) for clients in counts)
    failed = 0
    for name, most in (('encodes', MOST), ('encoded_bytes', MOST)):
        ratio = many[name] / few[name]
        failed += ratio > most
        print('%s: %g with %d clients, %g with %d, %.2f times%s' % (name, few[name], counts[0], many[name], counts[1], ratio,
                                                                  '' if ratio <= most else ': MORE THAN %g' % most))
    for name in ('pairs', 'bytes_per_tick'):
        ratio, share = many[name] / few[name], counts[1] / counts[0]
        right = 0.9 * share < ratio < 1.1 * share
        failed += not right
        print('%s: %.2f times with %.2f times the clients%s' % (name, ratio, share, '' if right else ': NOT AS MANY AS CLIENTS'))
    failed += many['encodes'] != many['distinct_keys'] or many['encodes'] <= 0
    return 1 if failed else 0


sys.exit(main())
