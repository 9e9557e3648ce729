#!/usr/bin/env python3
"""Compares the table of docs/conformance.md with the tests that the conformance program has.

    check_conformance.py DOCUMENT PROGRAM

Rows are `| `group/name` | file | same, stricter or different | reason |`. Each name is a test, each test has one row, "different" rows cite
a rule (R and a number), and there are at most 15 of them. Exit code: 0 clean, 1 findings (one a line), 2 bad use.
"""
import re
import subprocess
import sys

DIFFERENT_MAX = 15
ROW = re.compile(r'^\| `([a-z0-9_]+/[a-z0-9_]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$')
NAME = re.compile(r'^[a-z0-9_]+/[a-z0-9_]+$')


def rows_of(document):
    return [tuple(cell.strip() for cell in match.groups()) for match in map(ROW.match, document.splitlines()) if match]


def names_of(listing):
    return [line.strip() for line in listing.splitlines() if NAME.match(line.strip())]


def check(document, listing):
    rows, tests = rows_of(document), names_of(listing)
    findings = []
    seen = set()
    different = 0
    for name, _, verdict, reason in rows:
        if name in seen:
            findings.append('%s: two rows' % name)
        seen.add(name)
        if name not in tests:
            findings.append('%s: no such test' % name)
        if verdict not in ('same', 'stricter', 'different', 'ours'):
            findings.append('%s: the verdict is "%s"' % (name, verdict))
        if verdict == 'different':
            different += 1
            if not re.search(r'\bR\d+\b', reason):
                findings.append('%s: different, but cites no rule' % name)
    findings += ['%s: a test without a row' % name for name in tests if name not in seen]
    if different > DIFFERENT_MAX:
        findings.append('%d rows are different, at most %d may be' % (different, DIFFERENT_MAX))
    if not rows:
        findings.append('no rows')
    return findings, len(rows)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(arguments[0], encoding='utf-8') as file:
        document = file.read()
    listing = subprocess.run([arguments[1], '--list-test-cases'], stdout=subprocess.PIPE, check=True).stdout.decode()
    findings, rows = check(document, listing)
    for finding in findings:
        print(finding)
    print('check_conformance: %d rows, %d findings' % (rows, len(findings)))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
