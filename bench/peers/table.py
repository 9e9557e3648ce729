#!/usr/bin/env python3
"""Prints throng's ECS rows beside those of the peers. usage: table.py THRONG_JSON PEERS_JSON"""
import json
import sys


def figure(row):
    return row.get('ns_per_op', row.get('bytes_per_entity'))


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding='utf-8') as file:
        ours = {run['case']: figure(run) for run in json.load(file)['runs']}
    with open(sys.argv[2], encoding='utf-8') as file:
        rows = json.load(file)['rows']
    libraries = list(dict.fromkeys((row['library'], row['version']) for row in rows))
    theirs = {(row['case'], row['library']): figure(row) for row in rows}
    print('| case | throng | with a direct index | %s | throng / best |' % ' | '.join('%s %s' % library for library in libraries))
    print('|---|' + '---:|' * (len(libraries) + 3))
    for case in dict.fromkeys(row['case'] for row in rows):
        if case not in ours:
            continue
        values = [theirs[case, name] for name, _ in libraries]
        direct = ours.get(case + '_direct')
        cells = ['%.3g' % ours[case], '%.3g' % direct if direct else ''] + ['%.3g' % v for v in values]
        best = min(values) # 0 where few entities fit what a library had before
        print('| %s | %s | %s |' % (case, ' | '.join(cells), '%.2f' % (ours[case] / best) if best else '-'))
    return 0


if __name__ == '__main__':
    sys.exit(main())
