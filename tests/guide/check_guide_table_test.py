#!/usr/bin/env python3
"""Shows that tools/check_guide_table.py finds what it should: check_guide_table_test.py CHECK_GUIDE_TABLE ROOT"""
import os
import shutil
import subprocess
import sys
import tempfile

GUIDE = 'docs/guide.md'
HEAD = '| call | cost | invalidates |\n|---|---|---|\n'
WORLD = 'include/throng/world_class.hpp'
CREATE = '    Entity create();\n'

# name, file, what is replaced in it, by what, findings wanted (None: bad use), a word of the output
CASES = [
    ('equal', GUIDE, HEAD, HEAD, 0, ' 0 findings'),
    ('a call less', GUIDE, '`create`', 'creation', 1, 'not in the table of docs/guide.md: create'),
    ('a call of a type less', GUIDE, '`RollbackRing::holds`', 'holds', 1, 'not in the table of docs/guide.md: RollbackRing::holds'),
    ('a call too many', GUIDE, HEAD, HEAD + '| `conjure<T>(n)` | O(1) | nothing |\n', 1, 'no public call of this name: conjure'),
    ('a type that has no such call', GUIDE, HEAD, HEAD + '| `Prefab::clone`, `alive` | O(1) | nothing |\n', 1,
     'no public call of this name: Prefab::alive'),
    ('an empty cell', GUIDE, HEAD, HEAD + '| `alive` | O(1) | |\n', 1, 'none empty'),
    ('no table', GUIDE, HEAD, '', 1, 'no table'),
    ('a new call', WORLD, CREATE, CREATE + '    template <class T, u32 N>\n        requires(N > 0 && requires { T{}; })\n'
     '    [[nodiscard]] std::span<const Pool<T>> conjure(u32 n = 2) const { return f(n); }\n', 1,
     'not in the table of docs/guide.md: conjure'),
    ('two new calls', WORLD, CREATE, CREATE + '    u32 one() { if (x) { y(); } return 1; }\n    static u32 two();\n', 2, ': two'),
    ('no calls', WORLD, CREATE, CREATE + '    // u32 said();\n    BasicWorld(BasicWorld&& other) noexcept;\n    u32 gone() = delete;\n'
     '    bool operator==(const BasicWorld&) const;\n    struct Made { u32 inner(); };\n    u32 value = f();\nprivate:\n    u32 hidden();\n'
     'public:\n', 0, ' 0 findings'),
    ('no class', WORLD, 'class BasicWorld :', 'class OtherWorld :', None, 'no class BasicWorld'),
]


def main():
    wrong = 0
    for name, path, old, new, wanted, word in CASES:
        with tempfile.TemporaryDirectory() as root:
            shutil.copytree(os.path.join(sys.argv[2], 'include'), os.path.join(root, 'include'))
            os.mkdir(os.path.join(root, 'docs'))
            shutil.copy(os.path.join(sys.argv[2], GUIDE), os.path.join(root, GUIDE))
            with open(os.path.join(root, path), encoding='utf-8') as file:
                text = file.read()
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write(text.replace(old, new, 1))
            done = subprocess.run([sys.executable, sys.argv[1], '--root', root], capture_output=True, text=True)
            good = old in text and word in done.stdout and done.returncode == (2 if wanted is None else wanted > 0)
            if wanted and name != 'no table':
                good = good and len(done.stdout.splitlines()) == wanted + 1
            print('%s: %s' % (name, 'ok' if good else 'WRONG\n' + done.stdout + done.stderr))
            wrong += not good
    print('%d passed, %d failed' % (len(CASES) - wrong, wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
