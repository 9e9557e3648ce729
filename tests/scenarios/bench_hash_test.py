#!/usr/bin/env python3
"""throng_bench --hash, small: bench_hash_test.py THRONG_BENCH. Exit code 0: as it should be; 1: not."""
import os
import re
import subprocess
import sys
import tempfile


def check(condition, message, shown=''):
    if not condition:
        print('not so: %s\n%s' % (message, shown))
        sys.exit(1)


def main():
    program = sys.argv[1]

    def run(path, *options):
        result = subprocess.run([program, '--scenario', 'crowd', '--clients', '8', '--quick', '--no-baselines', '--hash', path, *options],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200, check=False)
        return result.returncode, result.stdout, result.stderr

    def refused(path, says, *options):
        code, out, err = run(path, *options)
        check(code == 2 and not out, '%s: exit code 2 and nothing run' % path, '%d\n%s%s' % (code, out, err))
        check(err.startswith('throng_bench: ') and len(err.splitlines()) == 1 and says in err, '%s: one line: %s' % (path, says), err)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'golden')
        code, out, err = run(path, '--workers', '1')
        check(code == 0 and not err, 'a missing file is no error', out + err)
        with open(path, encoding='ascii') as file:
            golden = file.read()
        check(re.fullmatch('[0-9a-f]{32}\n', golden) and golden.strip() in out, 'the hash is in the file, and printed', golden + out)
        for options in (['--executor', 'threads', '--workers', '3'], ['--executor', 'tbb', '--workers', '2']):
            code, out, err = run(path, *options)
            check(code == 0 and not err and golden.strip() in out, '%s: the same hash' % options, out + err)
        with open(path, encoding='ascii') as file:
            check(file.read() == golden, 'the file stays as it is')

        code, out, err = run(path, '--seed', '2')
        check(code == 1 and 'output_hash' in err, 'another seed sends something else', out + err)
        other = '%032x\n' % (int(golden, 16) ^ 1)
        with open(path, 'w', encoding='ascii') as file:
            file.write(other)
        code, out, err = run(path)
        check(code == 1, 'another hash in the file: exit code 1, not %d' % code, out + err)
        check(len(err.splitlines()) == 1 and all(part in err for part in (golden.strip(), other.strip(), path)),
              'one line with both hashes and the file', err)
        with open(path, encoding='ascii') as file:
            check(file.read() == other, 'a difference leaves the file as it is')

        for text in ('', golden[:31], golden + golden, golden.replace(golden[0], 'x')):
            with open(path, 'w', encoding='ascii') as file:
                file.write(text)
            refused(path, 'not an output hash')
        refused(folder, 'cannot read')
        if os.getuid() != 0: # root may read everything
            os.chmod(path, 0)
            refused(path, 'cannot read')
        absent = os.path.join(folder, 'absent', 'golden')
        code, out, err = run(absent)
        check(code == 2 and 'cannot write ' + absent in err, 'where nothing can be written: exit code 2', out + err)
        refused(path, 'the engine throng', '--engine', 'naive')
        refused(path, 'the engine throng', '--scenario', 'ecs')


main()
