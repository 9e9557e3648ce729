#!/usr/bin/env python3
"""Compares the tables of docs/conformance.md with the tests that the conformance program, and others, have.

    check_conformance.py DOCUMENT CONFORMANCE_PROGRAM [OTHER_TEST_PROGRAM...]

Rows of behaviours are `| `group/name` | file | same, stricter or different | reason |`. Each name is a test, each test has one row,
"different" rows cite a rule (R and a number), and there are at most 15 of them.

Rows of bugs are `| number: what was reported | tests | here |`. Each number of BUGS has one; its tests, `group/name` or the name of another
program's test in double quotes, exist; a row without tests says "cannot happen: why" or "not offered". Tests named bug/NUMBER_... are in
the row of their number, and nowhere else. Exit code: 0 clean, 1 findings (one a line), 2 bad use.
"""
import re
import subprocess
import sys

DIFFERENT_MAX = 15
ROW = re.compile(r'^\| `([a-z0-9_]+/[a-z0-9_]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$')
NAME = re.compile(r'^[a-z0-9_]+/[a-z0-9_]+$')
BUG_ROW = re.compile(r'^\| (\d+): [^|]*\|([^|]*)\|([^|]*)\|$')
BUG_TEST = re.compile(r'`([a-z0-9_]+/[a-z0-9_]+)`|"([^"]+)"')
NO_TEST = re.compile(r'^(cannot happen: .|not offered)')
BUGS = [int(number) for number in """
    1 3 4 6 7 9 10 12 14 15 16 17 19 20 22 23 25 26 27 29 30 32 33 34 36 38 40 41 43 45 46 47 49 50 52 53 54 56 57 58 59 60 63 65 66 68 69
    71 72 73 75 76 78 79 81 83 85 86 87 89 90 91 93 95 96 97 98 100 101 103 104 105 108 109 111 112 114 116 117 119 121 122""".split()]


def rows_of(document):
    return [tuple(cell.strip() for cell in match.groups()) for match in map(ROW.match, document.splitlines()) if match]


def names_of(listing):
    return [line.strip() for line in listing.splitlines() if NAME.match(line.strip())]


def check_behaviours(document, tests):
    rows = rows_of(document)
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
    findings += ['%s: a test without a row' % name for name in tests if name not in seen and not name.startswith('bug/')]
    if different > DIFFERENT_MAX:
        findings.append('%d rows are different, at most %d may be' % (different, DIFFERENT_MAX))
    if not rows:
        findings.append('no rows')
    return findings, len(rows)


def check_bugs(document, tests, other_tests, numbers):
    findings = []
    seen, named = [], set()
    for match in filter(None, map(BUG_ROW.match, document.splitlines())):
        number, cell, verdict = int(match.group(1)), match.group(2), match.group(3).strip()
        names = [(own or other, own) for own, other in BUG_TEST.findall(cell)]
        seen.append(number)
        if not verdict or not (names or NO_TEST.match(verdict)):
            findings.append('bug %d: neither a test nor "cannot happen: why" or "not offered"' % number)
        for name, own in names:
            if name not in (tests if own else other_tests):
                findings.append('bug %d: no test "%s"' % (number, name))
            if name.startswith('bug/') and not name.startswith('bug/%d_' % number):
                findings.append('bug %d: %s is a test of another number' % (number, name))
            named.add(name)
    findings += ['bug %d: %d rows' % (number, seen.count(number)) for number in numbers if seen.count(number) != 1]
    findings += ['%s: in no row' % name for name in tests if name.startswith('bug/') and name not in named]
    return findings, len(seen)


def main(arguments):
    if len(arguments) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(arguments[0], encoding='utf-8') as file:
        document = file.read()
    listings = [subprocess.run([program, '--list-test-cases'], stdout=subprocess.PIPE, check=True).stdout.decode()
                for program in arguments[1:]]
    tests = names_of(listings[0])
    other_tests = {line.strip() for listing in listings[1:] for line in listing.splitlines()}
    behaviours, rows = check_behaviours(document, tests)
    bugs, bug_rows = check_bugs(document, tests, other_tests, BUGS)
    findings = behaviours + bugs
    for finding in findings:
        print(finding)
    print('check_conformance: %d behaviours, %d bugs, %d findings' % (rows, bug_rows, len(findings)))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
