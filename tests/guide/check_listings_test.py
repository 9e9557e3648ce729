#!/usr/bin/env python3
"""Shows that tools/check_listings.py finds what it should: check_listings_test.py CHECK_LISTINGS"""
import os
import subprocess
import sys
import tempfile

SOURCE = '// [one]\n    int a = 1;\n        int b = 2;\n// [/one]\n'
GOOD = 'Text.\n\n<!-- listing: a.cpp one -->\n```cpp\nint a = 1;\n    int b = 2;\n```\n\n```sh\nls\n```\n'

# name, document, findings wanted, a word of the output
CASES = [
    ('equal', GOOD, 0, '1 listings'),
    ('changed', GOOD.replace('a = 1', 'a = 3'), 1, 'differs'),
    ('a line less', GOOD.replace('int a = 1;\n', ''), 1, 'differs'),
    ('no marker', GOOD.replace('<!-- listing: a.cpp one -->\n', ''), 1, 'without a marker'),
    ('no snippet', GOOD.replace('cpp one', 'cpp two'), 1, 'no snippet'),
    ('no file', GOOD.replace('a.cpp', 'b.cpp'), 1, 'no such file'),
    ('no listing', 'Text\n<!-- listing: a.cpp one -->\nText\n', 1, 'without a listing'),
    ('dead link', GOOD + '[there](there.md#x)\n', 1, 'leads nowhere'),
    ('good links', GOOD + '[here](a.cpp#x) [web](https://example.org/x) [top](#x)\n', 0, '1 listings'),
]


def main():
    wrong = 0
    for name, document, wanted, word in CASES:
        with tempfile.TemporaryDirectory() as root:
            for file_name, text in (('a.cpp', SOURCE), ('d.md', document)):
                with open(os.path.join(root, file_name), 'w', encoding='ascii') as file:
                    file.write(text)
            command = [sys.executable, sys.argv[1], '--root', root]
            done = subprocess.run(command + ['d.md'], capture_output=True, text=True)
            good = done.returncode == (wanted > 0) and word in done.stdout and len(done.stdout.splitlines()) == wanted + 1
            if name == 'changed':
                subprocess.run(command + ['--write', 'd.md'], capture_output=True, check=False)
                with open(os.path.join(root, 'd.md'), encoding='ascii') as file:
                    good = good and file.read() == GOOD
            print('%s: %s' % (name, 'ok' if good else 'WRONG\n' + done.stdout + done.stderr))
            wrong += not good
    for lines, wanted in ((25, 0), (26, 1)): # the program of README.md
        with tempfile.TemporaryDirectory() as root:
            for file_name, text in (('a.cpp', '// [one]\n%s// [/one]\n'), ('README.md', '<!-- listing: a.cpp one -->\n```cpp\n%s```\n')):
                with open(os.path.join(root, file_name), 'w', encoding='ascii') as file:
                    file.write(text % ('int a;\n' * lines))
            done = subprocess.run([sys.executable, sys.argv[1], '--root', root, 'README.md'], capture_output=True, text=True)
            good = done.returncode == wanted and ('26 lines, the limit is 25' in done.stdout) == wanted
            print('%d lines: %s' % (lines, 'ok' if good else 'WRONG\n' + done.stdout + done.stderr))
            wrong += not good
    print('%d passed, %d failed' % (len(CASES) + 2 - wrong, wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
