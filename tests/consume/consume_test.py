#!/usr/bin/env python3
"""Embeds the library in a small host, in one of three ways, and runs the host.

    consume_test.py subproject|pkgconfig|cmake SOURCE_ROOT BUILD_ROOT VERSION CXX...

Exit codes: 0 it works, 1 it does not, 77 a program that this way needs is missing.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run(command, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                            check=False, **options)
    if result.returncode != 0:
        print('%s\nfailed with %d:\n%s' % (' '.join(command), result.returncode, result.stdout))
        sys.exit(1)
    return result.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            print('skipped: %s is missing' % program)
            sys.exit(77)


def expect(good, what):
    if not good:
        print('failed: ' + what)
        sys.exit(1)


def run_host(program):
    output = run([program])
    expect('host: ok' in output, 'the host says ok, it said:\n' + output)


def install(build_root, folder):
    """Installs the build below a folder, as if that were the root of the file system, and returns the folder of the .pc files."""
    run(['meson', 'install', '-C', build_root, '--no-rebuild', '--destdir', folder])
    found = [parent for parent, _, files in os.walk(folder) if 'throng.pc' in files]
    expect(len(found) == 1, 'one throng.pc is installed, found: %s' % found)
    headers = [parent for parent, _, files in os.walk(folder) if 'base.hpp' in files]
    expect(len(headers) == 1 and headers[0].endswith('include/throng'), 'the headers are installed once')
    for name in os.listdir(found[0]):  # pkg-config has no notion of a root that holds for throng.pc alone
        with open(os.path.join(found[0], name), 'r+', encoding='utf-8') as file:
            text = re.sub(r'(?m)^prefix=', 'prefix=' + folder, file.read())
            file.seek(0)
            file.write(text)
    return found[0]


def subproject(work, source_root, here, version):
    shutil.copytree(os.path.join(here, 'subproject'), work, dirs_exist_ok=True)
    os.mkdir(os.path.join(work, 'subprojects'))
    os.symlink(source_root, os.path.join(work, 'subprojects', 'throng'))
    build = os.path.join(work, 'out')
    # Not optimised: this tests the build, and the library is compiled once more for it.
    run(['meson', 'setup', build, work, '--buildtype=plain', '-Dexpected_version=' + version])
    run(['ninja', '-C', build])
    run_host(os.path.join(build, 'host'))
    targets = json.loads(run(['meson', 'introspect', '--targets', build]))
    names = sorted(target['name'] for target in targets if target['type'] in ('executable', 'custom', 'run'))
    expect(names == ['host'], 'tests, bench and tools are off inside a parent, found: %s' % names)
    expect('No tests defined' in run(['meson', 'test', '-C', build, '--no-rebuild']), 'a parent sees none of our tests')


def pkgconfig(work, build_root, cxx, version):
    need('pkg-config')
    folder = install(build_root, os.path.join(work, 'installed'))
    environment = dict(os.environ, PKG_CONFIG_PATH=folder)
    flags = run(['pkg-config', '--cflags', '--libs', 'throng'], env=environment).split()
    expect(not any('mimalloc' in flag for flag in flags), 'throng.pc does not name mimalloc: %s' % flags)
    expect(run(['pkg-config', '--modversion', 'throng'], env=environment).strip() == version, 'throng.pc has the version')
    program = os.path.join(work, 'host')
    run(cxx + ['-std=c++20', '-Wall', '-Wextra', '-pedantic', '-Werror', '-DEXPECTED_VERSION="%s"' % version,
               os.path.join(work, 'host.cpp'), '-o', program] + flags + ['-ldl'])
    run_host(program)


def cmake(work, build_root, here, cxx, version):
    need('cmake', 'pkg-config')
    folder = install(build_root, os.path.join(work, 'installed'))
    shutil.copy(os.path.join(here, 'cmake', 'CMakeLists.txt'), work)
    environment = dict(os.environ, PKG_CONFIG_PATH=folder, CXX=cxx[-1])
    build = os.path.join(work, 'out')
    run(['cmake', '-S', work, '-B', build, '-DEXPECTED_VERSION=' + version], env=environment)
    run(['cmake', '--build', build], env=environment)
    run_host(os.path.join(build, 'host'))


def main():
    way, source_root, build_root, version = sys.argv[1:5]
    cxx = sys.argv[5:]
    here = os.path.join(source_root, 'tests', 'consume')
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(os.path.join(here, 'host.cpp'), work)
        if way == 'subproject':
            subproject(work, source_root, here, version)
        elif way == 'pkgconfig':
            pkgconfig(work, build_root, cxx, version)
        elif way == 'cmake':
            cmake(work, build_root, here, cxx, version)
        else:
            print('unknown way: ' + way)
            return 2
    return 0


if __name__ == '__main__':
    sys.exit(main())
