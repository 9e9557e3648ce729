#!/usr/bin/env python3
"""Counts what a `meson test` run passed, failed and skipped, from its testlog.json: each doctest case, and each other test, is one.

    tools/count_tests.py BUILD/meson-logs/testlog.json [--unit BUILD/tests/unit]

Prints "PASSED FAILED SKIPPED". With --unit, cases that the program has but no test ran (marked skip, or in a suite that is
not registered) count as skipped.
"""
import argparse
import json
import re
import subprocess
import sys

SUMMARY = re.compile(r'\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed')
COLOUR = re.compile(r'\x1b\[[0-9;]*m')


def count(log):
    """(passed, failed, skipped, doctest cases that ran)"""
    passed = failed = skipped = cases_run = 0
    for line in log:
        test = json.loads(line)
        good = test['result'] in ('OK', 'EXPECTEDFAIL')
        summary = SUMMARY.search(COLOUR.sub('', test.get('stdout') or ''))
        if summary:
            case_passed, case_failed = int(summary.group(2)), int(summary.group(3))
            cases_run += case_passed + case_failed
            passed += case_passed
            # A program that ends badly after its last case (a leak, a sanitizer report) is a failure too.
            failed += case_failed if good or case_failed else 1
        elif test['result'] == 'SKIP':
            skipped += 1
        elif good:
            passed += 1
        else:
            failed += 1
    return passed, failed, skipped, cases_run


def main():
    parser = argparse.ArgumentParser(description='Counts passed, failed and skipped tests of a meson test run.')
    parser.add_argument('log')
    parser.add_argument('--unit', help='the doctest program, to count the cases that did not run')
    options = parser.parse_args()
    with open(options.log, encoding='utf-8') as log:
        passed, failed, skipped, cases_run = count(log)
    if options.unit:
        listing = subprocess.run([options.unit, '--no-skip', '--count'], stdout=subprocess.PIPE, text=True, check=True).stdout
        skipped += max(0, int(re.search(r'filters:\s*(\d+)', COLOUR.sub('', listing)).group(1)) - cases_run)
    print(passed, failed, skipped)
    return 0


if __name__ == '__main__':
    sys.exit(main())
