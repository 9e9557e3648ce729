"""Checks of the checker: check_conformance_test.py PATH_OF_check_conformance.py"""
import importlib.util
import sys
import unittest

spec = importlib.util.spec_from_file_location('check_conformance', sys.argv.pop(1))
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)

LISTING = '[doctest] listing all test case names\n====\nspawn/empty\nspawn/late\n====\n[doctest] unskipped: 2\n'


def row(name, verdict='same', reason=''):
    return '| `%s` | `spawn.cpp` | %s | %s |\n' % (name, verdict, reason)


class Checks(unittest.TestCase):
    def findings(self, document):
        return checker.check(document, LISTING)[0]

    def test_clean(self):
        self.assertEqual(self.findings('| name | test |\n|---|---|\n' + row('spawn/empty') + row('spawn/late', 'different', 'R11')), [])

    def test_each_finding(self):
        good = row('spawn/empty')
        self.assertEqual(self.findings(good), ['spawn/late: a test without a row'])
        self.assertIn('spawn/gone: no such test', self.findings(good + row('spawn/gone')))
        self.assertIn('spawn/empty: two rows', self.findings(good + good))
        self.assertIn('spawn/late: different, but cites no rule', self.findings(row('spawn/late', 'different', 'because')))
        self.assertIn('spawn/late: the verdict is "maybe"', self.findings(row('spawn/late', 'maybe')))
        self.assertIn('no rows', self.findings('nothing'))
        many = ''.join(row('spawn/n%d' % i, 'different', 'R1') for i in range(16))
        self.assertIn('16 rows are different, at most 15 may be', self.findings(many))


if __name__ == '__main__':
    unittest.main()
