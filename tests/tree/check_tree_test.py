#!/usr/bin/env python3
"""Shows that every rule of tools/check_tree.py fires: a small good tree is clean, and each defect put into it is named."""
import contextlib
import importlib.util
import io
import os
import sys
import tempfile

GOOD = {
    'meson.build': "project('small', 'cpp')\n",
    'include/throng/meson.build': "headers = files('base.hpp', 'server.hpp')\n",
    'include/throng/base.hpp': '#pragma once\n#include <cstdint>\n',
    'include/throng/server.hpp': '#pragma once\n#include "throng/base.hpp"\n',
    'src/base/meson.build': "sources += files('base.cpp')\n",
    'src/base/base.cpp': '#include "throng/base.hpp"\n// may say throw, rand(), std::shared_ptr\nconst char* text = "throw";\n',
    'src/wire/meson.build': "sources += files('bits.cpp')\n",
    'src/wire/bits.hpp': '#pragma once\n',
    'src/wire/bits.cpp': '#include "src/wire/bits.hpp"\n',
    'src/server/meson.build': "sources += files('server.cpp')\n",
    'src/server/server.cpp': '#include "throng/server.hpp"\n#include "src/wire/bits.hpp"\n',
    'src/transport/meson.build': "sources += files('udp_socket.cpp')\n",
    'src/transport/udp_socket.cpp': 'auto now = std::chrono::steady_clock::now();\n',
    'jobs/executors/meson.build': "sources += files('tbb.cpp')\n",
    'jobs/executors/tbb.cpp': '#include <tbb/parallel_for.h>\n',
    'tools/meson.build': "test('x', find_program('check.py'))\nfiles('demo', 'setup.sh')\n",
    'tools/check.py': 'print(1)\n',
    'tools/demo': '#!/bin/bash\n',
    'tools/setup.sh': 'name=value\n',
    'bench/data/words': 'not a script\n',
}

# (rule that must fire, file it must name, files to add or replace)
BAD = [
    ('upward-include', 'src/base/base.cpp', {'src/base/base.cpp': '#include "src/wire/bits.hpp"\n'}),
    ('upward-include', 'src/base/base.cpp', {'src/base/base.cpp': '#include "throng/server.hpp"\n'}),
    ('upward-include', 'include/throng/base.hpp', {'include/throng/base.hpp': '#pragma once\n#include "throng/server.hpp"\n'}),
    ('upward-include', 'src/client/a.cpp', {'src/client/a.cpp': '#include "throng/server.hpp"\n',
                                            'src/client/meson.build': "files('a.cpp')\n"}),
    ('upward-include', 'src/ecs/a.cpp', {'src/ecs/a.cpp': '#include "src/wire/bits.hpp"\n', 'src/ecs/meson.build': "files('a.cpp')\n"}),
    ('upward-include', 'src/memory/a.cpp', {'src/memory/a.cpp': '#include "src/wire/bits.hpp"\n',
                                            'src/memory/meson.build': "files('a.cpp')\n"}),
    ('upward-include', 'src/server/server.cpp', {'src/server/server.cpp': '#include "jobs/stages/plan.hpp"\n',
                                                 'jobs/stages/plan.hpp': '#pragma once\n'}),
    ('upward-include', 'src/wire/bits.cpp', {'src/wire/bits.cpp': '#include "src/wire/bits.hpp"\n#include "tests/help.hpp"\n',
                                             'tests/help.hpp': '#pragma once\n'}),
    ('unknown-module', 'src/magic/a.cpp', {'src/magic/a.cpp': '\n', 'src/magic/meson.build': "files('a.cpp')\n"}),
    ('unknown-module', 'include/throng/magic.hpp', {'include/throng/magic.hpp': '#pragma once\n',
                                                    'include/throng/meson.build': "files('base.hpp', 'server.hpp', 'magic.hpp')\n"}),
    ('unlisted', 'src/base/forgotten.cpp', {'src/base/forgotten.cpp': '\n'}),
    ('unlisted', 'include/throng/client.hpp', {'include/throng/client.hpp': '#pragma once\n'}),
    ('unlisted', 'src/base/orphan.hpp', {'src/base/orphan.hpp': '#pragma once\n'}),
    ('unlisted', 'bench/b.cpp', {'bench/b.cpp': 'int main() {}\n'}),
    ('unlisted', 'tests/base/t.cpp', {'tests/base/t.cpp': '\n', 'tests/base/meson.build': "files('other_t.cpp')\n"}),
    ('unlisted', 'tools/forgotten.py', {'tools/forgotten.py': '\n'}),
    ('unlisted', 'tools/forgotten.sh', {'tools/forgotten.sh': '\n'}),
    ('unlisted', 'tools/test', {'tools/test': '#!/bin/bash\n'}), # test() is no name of it
    ('unlisted', 'bench/peers/run', {'bench/peers/run': '#!/bin/bash\n', 'bench/peers/meson.build': "# files('run')\n"}),
    ('unlisted', 'tools/forgotten.pl', {'tools/forgotten.pl': '#!/usr/bin/perl\n'}),
    ('tbb', 'src/server/server.cpp', {'src/server/server.cpp': '#include <tbb/task_arena.h>\n'}),
    ('tbb', 'bench/b.cpp', {'bench/b.cpp': '#include <oneapi/tbb/parallel_for.h>\n', 'bench/meson.build': "files('b.cpp')\n"}),
    ('heavy-header', 'include/throng/base.hpp', {'include/throng/base.hpp': '#pragma once\n' + 'int declared();\n' * 46000}),
    ('heavy-header', 'include/throng/base.hpp', {'include/throng/base.hpp': '#pragma once\n#include "throng/missing.hpp"\n'}),
    ('heavy-include', 'include/throng/base.hpp', {'include/throng/base.hpp': '#pragma once\n#include <functional>\n'}),
    ('pragma-once', 'src/wire/bits.hpp', {'src/wire/bits.hpp': 'int x;\n'}),
    ('long-line', 'src/base/base.cpp', {'src/base/base.cpp': 'int x; ' + ' ' * 134 + '\n'}),
    ('long-line', 'tools/demo', {'tools/demo': '#!/bin/bash\n# ' + 'x' * 140 + '\n'}),
    ('ascii', 'src/base/base.cpp', {'src/base/base.cpp': '// \u00b5s\n'}),
    ('ascii', 'docs/guide.md', {'docs/guide.md': 'a dash \u2014 here\n'}),
    ('banned', 'src/base/base.cpp', {'src/base/base.cpp': 'std::shared_ptr<int> x;\n'}),
    ('banned', 'src/base/base.cpp', {'src/base/base.cpp': 'int x = rand();\n'}),
    ('banned', 'jobs/executors/tbb.cpp', {'jobs/executors/tbb.cpp': 'auto t = std::chrono::system_clock::now();\n'}),
    ('banned', 'src/base/base.cpp', {'src/base/base.cpp': 'const char* x = getenv("X");\n'}),
    ('banned', 'src/base/base.cpp', {'src/base/base.cpp': 'void f() { throw 1; }\n'}),
    ('banned', 'src/base/base.cpp', {'src/base/base.cpp': 'void f() { std::printf("x"); }\n'}),
    ('feature', 'src/base/base.cpp', {'src/base/base.cpp': '#include <expected>\n'}),
    ('feature', 'tests/base/t.cpp', {'tests/base/t.cpp': 'auto x = std::format("{}", 1);\n', 'tests/base/meson.build': "files('t.cpp')\n"}),
    ('machine-path', 'docs/guide.md', {'docs/guide.md': 'see %shome/someone/notes\n' % '/'}),
]


def run(check_tree, cxx, files):
    """Exit code and output of the checker over a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write(text)
        arguments = ['--root', root, '--cxx', cxx]
        if not any(p.startswith('include/') for p in files if files[p] != GOOD.get(p)):
            arguments.append('--skip-headers')
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = check_tree.main(arguments)
        return code, output.getvalue()


def main():
    cxx = sys.argv[2]
    spec = importlib.util.spec_from_file_location('check_tree', sys.argv[1])
    check_tree = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(check_tree)
    failures = 0
    code, output = run(check_tree, cxx, GOOD)
    if code != 0:
        failures += 1
        print('the good tree is not clean:\n' + output)
    for rule, path, changes in BAD:
        code, output = run(check_tree, cxx, {**GOOD, **changes})
        fired = any(line.startswith(path + ':') and ': %s: ' % rule in line for line in output.splitlines())
        if code != 1 or not fired:
            failures += 1
            print('%s did not fire for %s:\n%s' % (rule, path, output))
    if run(check_tree, cxx, {})[0] != 2:
        failures += 1
        print('an empty tree must be refused')
    print('%d trees, %d failures' % (len(BAD) + 2, failures))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
