"""Checks of the checker: check_conformance_test.py PATH_OF_check_conformance.py"""
import importlib.util
import os
import sys
import tempfile
import unittest

spec = importlib.util.spec_from_file_location('check_conformance', sys.argv.pop(1))
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)

LISTING = '[doctest] listing all test case names\n====\nspawn/empty\nspawn/late\n====\n[doctest] unskipped: 2\n'


def row(name, verdict='same', reason=''):
    return '| `%s` | `spawn.cpp` | %s | %s |\n' % (name, verdict, reason)


def bug(number, tests, verdict='right'):
    return '| %d: what was seen | %s | %s |\n' % (number, tests, verdict)


class Checks(unittest.TestCase):
    def findings(self, document, listed=()):
        files = {'spawn/empty': '`spawn.cpp`', 'spawn/late': '`spawn.cpp`'}
        return checker.check_behaviours(document, checker.names_of(LISTING), listed, files)[0]

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

    def test_files(self):
        elsewhere = row('spawn/late').replace('spawn.cpp', 'despawn.cpp')
        self.assertEqual(self.findings(row('spawn/empty') + elsewhere), ['spawn/late: it is in `spawn.cpp`, and not in `despawn.cpp`'])
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'a.cpp'), 'w', encoding='utf-8') as file:
                file.write('TEST_CASE("spawn/empty") {\n}\nTEST_CASE("spawn/late") {\n}\n')
            self.assertEqual(checker.files_of(folder), {'spawn/empty': '`a.cpp`', 'spawn/late': '`a.cpp`'})

    def test_listed(self):
        both = row('spawn/empty') + row('spawn/late', 'ours')
        self.assertEqual(self.findings(both, ['spawn/empty']), [])
        self.assertEqual(self.findings(both, ['spawn/empty', 'spawn/gone']), ['spawn/gone: listed, but has no row'])
        self.assertEqual(self.findings(both, ['spawn/late']), ['spawn/late: "ours", but it is listed'])

    def test_names_of_the_list(self):
        self.assertEqual(checker.listed_names('a: one two\n    three\nb: one'), ['a/one', 'a/two', 'a/three', 'b/one'])
        self.assertEqual(len(checker.LISTED), 204)
        self.assertEqual(len(set(checker.LISTED)), 204)

    def bug_findings(self, document):
        return checker.check_bugs(document, ['spawn/empty', 'bug/7_late', 'bug/9_lost'], {'of another program'}, [7, 9])[0]

    def test_bugs(self):
        late, lost = bug(7, '`bug/7_late`, `spawn/empty`'), bug(9, '`bug/9_lost`, `ecs`: "of another program"')
        self.assertEqual(self.bug_findings(late + lost + bug(201, '-', 'cannot happen: no registry')), [])
        self.assertEqual(self.bug_findings(late), ['bug 9: 0 rows', 'bug/9_lost: in no row'])
        self.assertEqual(self.bug_findings(late + late + lost), ['bug 7: 2 rows'])
        self.assertEqual(self.bug_findings(late + lost + bug(3, '`bug/3_gone`')), ['bug 3: no test "bug/3_gone"'])
        self.assertEqual(self.bug_findings(late + lost + bug(3, '"gone"')), ['bug 3: no test "gone"'])
        self.assertEqual(self.bug_findings(late + lost + bug(3, '`bug/9_lost`')), ['bug 3: bug/9_lost is a test of another number'])
        for verdict in ('right', '', 'cannot happen: '):
            self.assertEqual(len(self.bug_findings(late + lost + bug(3, '-', verdict))), 1)


if __name__ == '__main__':
    unittest.main()
