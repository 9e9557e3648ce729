#!/usr/bin/env python3
"""Prints throng's ECS rows beside those of the peers, as a markdown table.

usage: table.py THRONG_JSON PEERS_JSON [THRONG_BENCH]

Without THRONG_BENCH: every case, under its name. With it: the cases of docs/tuning.md in its words, after a paragraph that says
which versions, compilers and machine they were measured with.
"""
import json
import os
import platform
import re
import subprocess
import sys
import textwrap

# Cases that stand in docs/tuning.md.
WORDS = {
    'each_lvl4_1m': 'each, 4 bytes, 1 M',
    'each_hp8_1m': 'each, 8 bytes',
    'each_pos12_1m': 'each, 12 bytes',
    'each_buff32_1m': 'each, 32 bytes',
    'each_stats64_1m': 'each, 64 bytes',
    'each_index_pos12_1m': 'each with entity_idx, 12 bytes',
    'each_entity_pos12_1m': 'each with Entity, 12 bytes',
    'each_parallel_pos12_100k': 'each on 2 workers, 12 bytes, 100 k',
    'each_parallel_pos12_1m': 'each on 2 workers, 12 bytes, 1 M',
    'two_fresh_1m': 'two components, same sets, fresh, 1 M',
    'two_churned_1m': 'the same, churned',
    'two_shuffled_1m': 'the same, types added in other orders',
    'three_fresh_1m': 'three, fresh, 1 M',
    'three_churned_1m': 'three, churned',
    'three_shuffled_1m': 'three, types added in other orders',
    'two_mixed16_1m': '16 mixed sets, two of them, 1 M',
    'three_mixed16_1m': 'three of them',
    'get_random_100k': 'get, random, warm, 100 k',
    'get_random_1m': 'get, random, 1 M',
    'get3_random_1m': 'three gets of an entity, 1 M',
    'has_random_1m': 'has, random, 1 M',
    'mut_random_1m': 'mut, random, 1 M',
    'create_c1_1m': 'create 1, 1 M',
    'create_c3_1m': 'create 3, 1 M',
    'create_c8_1m': 'create 8, 1 M',
    'instantiate_c8_100k': 'instantiate 8, 100 k',
    'destroy_random_c1_1m': 'destroy random of 1, 1 M',
    'destroy_random_c8_100k': 'destroy random of 8, 100 k',
    'destroy_random_c8_1m': 'destroy random of 8, 1 M',
    'destroy_tenth_batch_c8_100k': 'destroy a tenth in a batch, 100 k',
    'destroy_tenth_batch_c8_1m': 'destroy a tenth in a batch, 1 M',
    'add_remove_fifth_in_order_100k': 'add and remove a fifth, in order, 100 k',
    'add_remove_fifth_random_100k': 'add and remove a fifth, random, 100 k',
    'churn_c8_100k': 'churn of 8, one by one, 100 k',
    'churn_c8_1m': 'churn of 8, one by one, 1 M',
    'churn_batch_c8_100k': 'churn of 8, in batches, 100 k',
    'churn_batch_c8_1m': 'churn of 8, in batches, 1 M',
    'mark_0.1_percent_1m': 'mark 0.1 % of 1 M, by marked row',
    'mark_10_percent_1m': 'mark 10 %',
    'mark_100_percent_1m': 'mark 100 %',
    'mark_bulk_1m': 'mark all in a loop, 12 bytes',
    'scan_0.1_percent_1m': 'scan, 0.1 % of 1 M marked, by row',
    'scan_10_percent_1m': 'scan, 10 %',
    'scan_100_percent_1m': 'scan, 100 %',
    'memory_c8_1m': 'bytes an entity of 8, 1 M',
    'memory_c1_1m': 'bytes an entity of 1, 1 M',
}
ONE_BY_ONE = ('destroy_tenth_batch', 'churn_batch')


def figure(row):
    return row.get('ns_per_op', row.get('bytes_per_entity'))


def shown(value):
    if value is None:
        return ''
    return '{:,.0f}'.format(value) if value >= 1000 else '%.3g' % value


def first_line(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split('\n')[0]
    except (OSError, subprocess.CalledProcessError):
        return 'unknown'


def compiler_of(program):
    with open(program, 'rb') as file:
        found = set(re.findall(rb'clang version [0-9.]+|GCC: \([^)]*\) [0-9.]+', file.read()))
    names = sorted(name.decode().replace('GCC:', 'g++').replace('version ', '') for name in found)
    return next((name for name in names if name.startswith('clang')), ' and '.join(names) or 'unknown')


def text_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read().strip()


def machine():
    try:
        model = re.search(r'model name\s*: (.*)', text_of('/proc/cpuinfo')).group(1)
    except (OSError, AttributeError):
        model = platform.machine()
    caches = []
    for i in range(4):
        folder = '/sys/devices/system/cpu/cpu0/cache/index%d/' % i
        try:
            level, size, kind = (text_of(folder + name) for name in ('level', 'size', 'type'))
        except OSError:
            break
        if kind != 'Instruction':
            caches.append('L%s %s' % (level, size))
    return '%s, %d processors, %s' % (model, os.cpu_count() or 0, ', '.join(caches) or 'caches unknown')


def conditions(bench, run, libraries):
    source = first_line('git', '-C', os.path.dirname(os.path.abspath(__file__)), 'describe', '--always', '--dirty')
    names = ', '.join('%s %s' % library for library in libraries)
    return textwrap.fill(
        f'`bench/peers/run --markdown`: throng {source} ({compiler_of(bench)}); {names} (release, fat LTO, '
        f'{first_line("rustc", "--version")}; C parts by {first_line("cc", "--version")}; for x86-64-v2 like throng, unless '
        f'RUSTFLAGS and CFLAGS say otherwise); {machine()}. '
        f'Medians of {run["repeat"]} {"quick " if run["quick"] else ""}rounds. Handles are checked by every library. \\*: the peers have '
        'no call that destroys a list of entities, theirs go one by one. An empty cell: the library has no such call, or no direct index.',
        140, break_long_words=False, break_on_hyphens=False)


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding='utf-8') as file:
        ours = {run['case']: figure(run) for run in json.load(file)['runs']}
    with open(sys.argv[2], encoding='utf-8') as file:
        rows = json.load(file)['rows']
    words = WORDS if len(sys.argv) == 4 else {row['case']: row['case'] for row in rows}
    libraries = list(dict.fromkeys((row['library'], row['version']) for row in rows))
    theirs = {(row['case'], row['library']): figure(row) for row in rows}
    if len(sys.argv) == 4:
        print(conditions(sys.argv[3], rows[0], libraries) + '\n')
    print('| ns an operation | throng | direct index | %s | throng / best |' % ' | '.join('%s %s' % library for library in libraries))
    print('|---|' + '---:|' * (len(libraries) + 3))
    for case, label in words.items():
        values = [theirs.get((case, name)) for name, _ in libraries]
        there = [value for value in values if value is not None]
        if case not in ours or not there:
            continue
        cells = [shown(value) for value in [ours[case], ours.get(case + '_direct')] + values]
        ratio = '%.2f' % (ours[case] / min(there)) if min(there) > 0 else '-'
        print('| %s%s | %s | %s |' % (label, ' \\*' if case.startswith(ONE_BY_ONE) else '', ' | '.join(cells), ratio))
    return 0


if __name__ == '__main__':
    sys.exit(main())
