#!/usr/bin/env python3
"""Checks the rules of the source tree that no compiler checks. Exit code: 0 clean, 1 findings (one a line), 2 bad use.

    tools/check_tree.py [--root DIR] [--cxx "COMMAND ..."] [--skip-headers]

Rules (the names in the output):
  upward-include   a module includes one that stands above it or beside it (table MODULES below)
  unknown-module   a folder or public header that the tables below do not place
  unlisted         a source, public header or script (.py, .sh, or whatever begins with #!) that no meson.build names; a private header
                   nobody includes
  tbb              a TBB include outside jobs/executors (tests of it and of the guide may make a host's arena)
  heavy-header     a public header that is over 45,000 lines after the preprocessor
  heavy-include    a public header that includes <memory>, <functional>, <chrono>, <memory_resource> or <atomic>
  pragma-once      a header without #pragma once
  long-line        over 140 columns
  ascii            a character outside ASCII
  banned           what the library must not use: the clock, randomness, the environment, shared_ptr, exceptions, logging
  feature          C++ features that g++ 12 or clang 14 lack
  machine-path     a path of somebody's machine
"""
import argparse
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
import tempfile

# A module may include itself and what has a lower level. Equal levels never include each other.
MODULES = {
    'src/base': 0,
    'src/memory': 1,
    'src/wire': 2,
    'jobs/executors': 3,
    'src/transport': 3,
    'src/ecs': 4,
    'src/registry': 5,
    'src/visibility': 6,
    'src/events': 6,
    'src/scene': 6,
    'src/server': 7,
    'src/client': 7,
    'jobs/stages': 8,
    'src/sync': 9,
}
# Pairs that the levels would allow, but that must work without each other.
APART = {('src/ecs', 'src/wire'), ('src/ecs', 'src/transport')}
# Public headers belong to the module of the same name, or of its first word (world_each: world); these are the others.
HEADERS = {
    'assert': 'src/base',
    'arena': 'src/memory', 'array': 'src/memory', 'mimalloc': 'src/memory',
    'executor': 'jobs/executors',
    'loopback': 'src/transport', 'udp': 'src/transport',
    'changes': 'src/ecs', 'commands': 'src/ecs', 'entity': 'src/ecs', 'hooks': 'src/ecs', 'pool': 'src/ecs', 'prefab': 'src/ecs',
    'relation': 'src/ecs', 'rollback': 'src/ecs',
    'signature': 'src/ecs', 'relations': 'src/ecs', 'resources': 'src/ecs', 'snapshot': 'src/ecs', 'world': 'src/ecs',
    'protocol': 'src/registry', 'admission': 'src/registry', 'spawn': 'src/registry',
    'interest': 'src/visibility', 'view': 'src/visibility', 'update': 'src/visibility', 'scopes': 'src/visibility',
    'typed': 'src/events', 'messenger': 'src/sync', 'multiplexer': 'src/sync',
    'throng': 'src/sync',  # the header that includes all others
}

CODE = ('.cpp', '.hpp', '.inl', '.h')
SCRIPTS = ('.py', '.sh')
TEXT = CODE + SCRIPTS + ('.md', '.build', '.txt', '.json', '.yml')
TOP = ('include', 'src', 'jobs', 'bench', 'tests', 'tools')
TBB_ALLOWED = ('jobs/executors/', 'tests/jobs/', 'tests/guide/')
LINES_MAX = 45000
COLUMNS_MAX = 140

# (rule, pattern, what to say, path prefixes it holds for, path prefixes that are excused)
LIBRARY = ('include/', 'src/', 'jobs/')
PATTERNS = [
    ('banned', r'\bshared_ptr\b|\bmake_shared\b', 'std::shared_ptr: say who owns it', LIBRARY, ()),
    ('banned', r'\bs?rand\s*\(|\brandom_device\b|\bmt19937', 'randomness is passed in as a seed', LIBRARY, ('src/transport/udp_',)),
    ('banned', r'_clock::now\b|\bclock_gettime\b|\bgettimeofday\b|\btime\s*\(\s*(?:NULL|nullptr|0)\s*\)', 'time is passed in',
     LIBRARY, ('src/transport/udp_',)),
    ('banned', r'\bgetenv\b', 'the environment is the host\'s', LIBRARY, ('src/transport/udp_',)),
    ('banned', r'\bthrow\b', 'the library does not throw', LIBRARY, ()),
    ('banned', r'\bstd::(?:cout|cerr|clog)\b|\b(?:f|v|vf)?printf\s*\(|\bf?puts\s*\(', 'the library does not log',
     LIBRARY, ('src/base/assert.cpp',)),
    ('feature', r'\bstd::expected\b|\bstd::format\b|\bstd::source_location\b|\bstd::views\b|\bstd::ranges::views\b|\bstd::print\b',
     'not in g++ 12 and clang 14', TOP, ()),
    ('feature', r'^\s*#\s*include\s*<(?:expected|format|ranges|source_location|print)>', 'not in g++ 12 and clang 14', TOP, ()),
]
HEAVY_INCLUDES = {'memory', 'functional', 'chrono', 'memory_resource', 'atomic', 'iostream'}
HEAVY_ALLOWED = {'include/throng/memory_pmr.hpp': {'memory_resource'}}
MACHINE_PATH = re.compile(r'(?<![\w.$}/-])/(?:home|root|work|Users)/\w')

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
# Comments, raw strings, strings and characters, in the order in which they may begin.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)


def strip_comments_and_strings(text):
    """The code alone, with every line break kept, so that line numbers stay right."""
    return NOT_CODE.sub(lambda match: '\n' * match.group(0).count('\n') or ' ', text)


class Tree:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.files = []
        for folder, names, files in os.walk(root):
            names[:] = sorted(n for n in names if not n.startswith(('.', 'build')) and n not in ('__pycache__', 'subprojects'))
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, '/')
                if not name.startswith('.'):
                    self.files.append(path)
        for name in ('.ci/run',):
            if os.path.exists(os.path.join(root, name)):
                self.files.append(name)
        self.text = {}

    def read(self, path):
        if path not in self.text:
            with open(os.path.join(self.root, path), 'rb') as file:
                self.text[path] = file.read().decode('utf-8', errors='surrogateescape')
        return self.text[path]

    def is_script(self, path):
        return path.endswith(SCRIPTS) or (not path.endswith(CODE) and self.read(path).startswith('#!'))

    def report(self, rule, path, line, message):
        self.findings.append('%s:%d: %s: %s' % (path, line, rule, message))

    # -- which module a file belongs to
    def module_of(self, path):
        if path.startswith('include/throng/'):
            stem = path[len('include/throng/'):].split('.')[0]
            modules = {**{module.split('/')[1]: module for module in MODULES}, **HEADERS}
            return modules.get(stem) or modules.get(stem.split('_')[0])
        return next((module for module in MODULES if path.startswith(module + '/')), None)

    def resolve(self, path, kind, name):
        """The file of the tree that an include means, or None for the system's."""
        candidates = [name, 'include/' + name]
        if kind == '"':
            candidates.insert(0, os.path.normpath(os.path.join(os.path.dirname(path), name)))
        return next((c for c in candidates if c.startswith(TOP) and os.path.isfile(os.path.join(self.root, c))), None)

    def check_includes(self):
        included = set()
        for path in self.files:
            if not path.endswith(CODE) or not path.startswith(TOP):
                continue
            text = self.read(path)
            module = self.module_of(path) if path.startswith(LIBRARY) else None
            if path.startswith(LIBRARY) and not module:
                self.report('unknown-module', path, 1, 'place it in the tables of tools/check_tree.py')
            for match in INCLUDE.finditer(text):
                kind, name = match.groups()
                line = text.count('\n', 0, match.start(1)) + 1
                if re.match(r'(?:oneapi/)?tbb/|oneapi/tbb\.h|tbb\.h', name) and not path.startswith(TBB_ALLOWED):
                    self.report('tbb', path, line, '<%s> belongs into jobs/executors' % name)
                if path.startswith('include/') and name in HEAVY_INCLUDES - HEAVY_ALLOWED.get(path, set()):
                    self.report('heavy-include', path, line, '<%s> is too much for a public header' % name)
                target = self.resolve(path, kind, name)
                if target:
                    included.add(target)
                if not target or not module:
                    continue
                if not target.startswith(LIBRARY):
                    self.report('upward-include', path, line, 'the library includes "%s"' % name)
                    continue
                other = self.module_of(target)
                if other and other != module and (MODULES[other] >= MODULES[module] or (module, other) in APART):
                    self.report('upward-include', path, line, '%s includes "%s" of %s' % (module, name, other))
        return included

    def check_listed(self, included):
        named = set()
        for build in self.files:
            words = r"'([\w./-]+)'" if build.endswith('meson.build') else r'[\w./-]+' if build.endswith('CMakeLists.txt') else None
            if words:
                for name in re.findall(words, re.sub(r'#.*', '', self.read(build))):
                    named.add(os.path.normpath(os.path.join(os.path.dirname(build), name)))
        for path in self.files:
            if not path.startswith(TOP):
                continue
            if path.endswith(('.hpp', '.inl', '.h')) and not path.startswith('include/'):
                if path not in included:
                    self.report('unlisted', path, 1, 'nobody includes this header')
            elif path not in named and (path.endswith(('.cpp', '.hpp')) or self.is_script(path)):
                self.report('unlisted', path, 1, 'no meson.build names this file')

    def check_text(self):
        for path in self.files:
            base = os.path.basename(path)
            if path.startswith(('tests/golden/', 'tests/fuzz/corpus/', 'bench/results/', 'bench/traces/')) and not path.endswith(CODE):
                continue
            script = self.is_script(path)
            if not (path.endswith(TEXT) or script) or base == 'LICENSE':
                continue
            text = self.read(path)
            code = path.endswith(CODE)
            for number, line in enumerate(text.split('\n'), 1):
                if len(line) > COLUMNS_MAX and (code or script or path.endswith('.build')):
                    self.report('long-line', path, number, '%d columns' % len(line))
                if not line.isascii():
                    self.report('ascii', path, number, 'a character outside ASCII')
                if MACHINE_PATH.search(line):
                    self.report('machine-path', path, number, 'a path of one machine')
            if not code:
                continue
            if path.endswith('.hpp') and not re.search(r'^#pragma once$', text, re.M):
                self.report('pragma-once', path, 1, 'a header starts with #pragma once')
            bare = strip_comments_and_strings(text)
            for rule, pattern, message, where, excused in PATTERNS:
                if not path.startswith(where) or (excused and path.startswith(excused)):
                    continue
                for match in re.finditer(pattern, bare, re.M):
                    self.report(rule, path, bare.count('\n', 0, match.start()) + 1, '%s: %s' % (match.group(0).strip(), message))

    def check_header_weight(self, cxx):
        headers = [p for p in self.files if p.startswith('include/') and p.endswith('.hpp')]

        def lines_of(path):
            with tempfile.NamedTemporaryFile('w', suffix='.cpp') as unit:
                unit.write('#include "%s"\n' % path[len('include/'):])
                unit.flush()
                run = subprocess.run(cxx + ['-std=c++20', '-E', '-I', os.path.join(self.root, 'include'), unit.name],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            return None if run.returncode else run.stdout.count(b'\n')

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for path, lines in zip(headers, pool.map(lines_of, headers)):
                if lines is None:
                    self.report('heavy-header', path, 1, 'the preprocessor fails')
                elif lines > LINES_MAX:
                    self.report('heavy-header', path, 1, '%d lines after the preprocessor, the limit is %d' % (lines, LINES_MAX))


def main(arguments=None):
    parser = argparse.ArgumentParser(description='Checks the rules of the source tree.')
    parser.add_argument('--root', default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), help='default: this repository')
    parser.add_argument('--cxx', default=os.environ.get('CXX', 'c++'), help='compiler command for the header limit')
    parser.add_argument('--skip-headers', action='store_true', help='do not run the preprocessor')
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.root):
        print('check_tree: no such folder: %s' % options.root, file=sys.stderr)
        return 2
    tree = Tree(options.root)
    if not tree.files:
        print('check_tree: nothing to check in %s' % options.root, file=sys.stderr)
        return 2
    tree.check_listed(tree.check_includes())
    tree.check_text()
    if not options.skip_headers:
        tree.check_header_weight(shlex.split(options.cxx))
    for finding in tree.findings:
        print(finding)
    print('check_tree: %d files, %d findings' % (len(tree.files), len(tree.findings)))
    return 1 if tree.findings else 0


if __name__ == '__main__':
    sys.exit(main())
