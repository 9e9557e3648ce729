#!/usr/bin/env python3
"""Runs the demo program small: demo_test.py PROGRAM CASE [SCHEMA]. Exit code 0: as it should be; 1: not."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

SMALL = ['--entities', '2000', '--clients', '8', '--plain']
VERIFIED = re.compile(r'^VERIFIED clients=(\d+) entities=([1-9]\d*) components=([1-9]\d*) ticks=(\d+)$')


def check(condition, message, shown=''):
    if not condition:
        print('not so: %s\n%s' % (message, shown))
        sys.exit(1)


def run(program, *arguments):
    result = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200, check=False)
    lines = result.stdout.splitlines()
    return result.returncode, lines[-1] if lines else '', result.stdout, result.stderr


def verified(program):
    code, last, out, err = run(program, *SMALL, '--seconds', '4')
    match = VERIFIED.match(last)
    check(code == 0 and match, 'exit 0 and VERIFIED', out + err)
    check(match.group(1) == '8' and match.group(4) == '80', '8 clients and 80 ticks', last)
    check('\x1b' not in out, 'no escape sequences in plain lines', out)
    rows = [line for line in out.splitlines() if re.search(r' s +\d+% tick [\d.]+ ms \[acks ', line)]
    check(len(rows) >= 2, 'a line about once a second', out)
    for word in ('pairs', 'bytes/client/s', 'bytes/pair', 'ns/pair', 'shared', 'zstd', 'compression', 'loss', 'baseline age'):
        check(all(word in row for row in rows), word + ' in each line', out)
    played = (r' [1-9]\d* passengers in [1-9]\d* rides, [1-9]\d* owners see what they earn; '
              r'horns: [1-9]\d* sent, [1-9]\d* heard by the server, [1-9]\d* by clients')
    check(re.search(played, out), 'passengers, owners and horns', out)
    check('7 clients and 1 later' in out, 'a late joiner', out)
    check(re.search(r'loss [1-9]|loss 0\.[1-9]', rows[-1]), 'the links lose packets', rows[-1])


def executors(program):
    lasts = set()
    for executor, workers in (('serial', '1'), ('threads', '3'), ('tbb', '2')):
        code, last, out, err = run(program, *SMALL, '--seconds', '0.5', '--executor', executor, '--workers', workers, '--loss', '10',
                                   '--seed', '7')
        check(code == 0 and VERIFIED.match(last), executor + ' is verified', out + err)
        lasts.add(last)
    check(len(lasts) == 1, 'the same result from each executor', str(lasts))


def sabotage(program, kind):
    code, last, out, err = run(program, *SMALL, '--seconds', '1', '--sabotage', kind)
    check(code == 1, 'exit code 1, not %d' % code, out + err)
    check(re.match(r'^FAILED %s: client \d+\b.+' % kind, last), 'FAILED %s: first difference' % kind, last)


def bad_options(program):
    for arguments in (['--entities', '0'], ['--entities'], ['--clients', '1.5'], ['--seconds', 'nan'], ['--seconds='], ['--loss', '51'],
                      ['--rtt', '-1'], ['--jitter', 'x'], ['--workers', '0'], ['--executor', 'fibres'],
                      ['--executor', 'serial', '--workers', '2'], ['--seed', '18446744073709551616'], ['--sabotage', 'promise'],
                      ['--radius', '1e9'], ['--json', ''], ['--json', '/nonexistent/x.json'], ['--frobnicate'], ['more']):
        code, _, out, err = run(program, *arguments)
        check(code == 2, '%s: exit code 2, not %d' % (arguments, code), out + err)
        check(len(err.splitlines()) == 1 and err.startswith('throng_demo: ') and not out, '%s: one line on stderr' % arguments, out + err)
    code, _, out, err = run(program, '--help')
    check(code == 0 and not err, '--help ends well', err)
    for option in ('entities clients seconds loss rtt jitter workers executor seed trace radius json sabotage plain help').split():
        check('--' + option in out, '--help lists --' + option, out)


def bad_trace(program):
    with tempfile.TemporaryDirectory() as folder:
        def path_of(name, data):
            path = os.path.join(folder, name)
            with open(path, 'wb') as file:
                file.write(data)
            return path
        for path in (path_of('empty.csv', b''), path_of('noise.bin', bytes(range(256)) * 9),
                     path_of('short.csv', b'id,time,x,y\n1,0,5\n'),
                     path_of('number.csv', b'id,time,x,y\n1,0,a,7\n'), path_of('header.csv', b'id,time,x,y\n'),
                     path_of('cut.throngtrace', b'THRTRACE\x01\x00'),
                     path_of('cut.xml', b'<fcd-export><timestep time="0"><vehicle id="a" x="1"'),
                     os.path.join(folder, 'absent'), folder):
            code, _, out, err = run(program, *SMALL, '--trace', path)
            check(code == 2, '%s: exit code 2, not %d' % (path, code), out + err)
            check(len(err.splitlines()) == 1 and err.startswith('throng_demo: '), path + ': one line on stderr', out + err)
        rows = ['id,time,x,y'] + ['%d,%g,%g,%d' % (i, t, i * 10 + 8 * t, i % 3 * 4) for t in range(4) for i in range(20)]
        code, last, out, err = run(program, '--entities', '60', '--clients', '4', '--seconds', '0.5', '--plain', '--trace',
                                   path_of('good.csv', '\n'.join(rows).encode()))
        check(code == 0 and VERIFIED.match(last), 'a small CSV runs', out + err)


def interrupt(program):
    with subprocess.Popen([program, *SMALL, '--seconds', '600'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        head = ''
        for line in process.stdout:
            head += line
            if '% tick ' in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        lines = out.splitlines()
    check(process.returncode == 0 and lines and VERIFIED.match(lines[-1]), 'a verdict on what was run', head + out + err)
    check(any(line.startswith('interrupted after') for line in lines), 'it says that it was interrupted', out)
    check(any(line.startswith('run: ') for line in lines), 'the summary is there', out)


def in_terminal(program, seconds, interrupt_at=None):
    """Exit code, all of the screen and its last line. Control-C is typed once `interrupt_at` has been seen."""
    process, screen = pty.fork()
    if process == 0:
        os.environ['TERM'] = 'xterm'
        os.execv(program, [program, '--entities', '500', '--clients', '4', '--seconds', str(seconds)])
    data, deadline = b'', time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            piece = os.read(screen, 65536)
        except OSError: # the other end is closed
            break
        if not piece:
            break
        data += piece
        if interrupt_at and interrupt_at in data:
            os.write(screen, b'\x03')
            interrupt_at = None
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    text = data.decode()
    return status, text, text.splitlines()[-1].split('\x1b[K')[-1]


def terminal(program):
    status, text, last = in_terminal(program, 3)
    check(status == 0 and VERIFIED.match(last), 'VERIFIED on the last line', repr(text))
    check(re.search(r'\x1b\[\d+A', text), 'the table is updated in place', repr(text))
    for word in ('acks', 'mark', 'structure', 'capture', 'interest', 'plan', 'encode', 'assemble', 'flush', 'baseline age'):
        check(word in text, word + ' in the table', repr(text))


def terminal_interrupt(program):
    status, text, last = in_terminal(program, 600, b'baseline age')
    check(status == 0 and VERIFIED.match(last), 'a verdict on what was run', repr(text))
    for part in ('interrupted after ', 'run: ', 'loss off, world still: '):
        check(re.search(r'(^|\n|\x1b\[K)' + part, text), 'a line with ' + part, repr(text))


def through_pipe(command, environment=None):
    """Exit code and output of `command | cat`, as in a terminal that could show tables."""
    result = subprocess.run(['bash', '-o', 'pipefail', '-c', '"$@" | cat', 'bash', *command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=200, check=False,
                            env={**os.environ, 'TERM': 'xterm', **(environment or {})})
    return result.returncode, result.stdout, result.stderr


def pipe(program):
    options = [option for option in SMALL if option != '--plain'] # it is seen that this is no terminal
    code, out, err = through_pipe([program, *options, '--seconds', '3'])
    lines = out.splitlines()
    check(code == 0 and not err and VERIFIED.match(lines[-1]), 'VERIFIED on the last line', out + err)
    check('\x1b' not in out and '\r' not in out, 'plain lines', repr(out))
    check(len([line for line in lines if '% tick ' in line]) >= 2, 'a line about once a second', out)
    for step in ('recording', 'tiling', 'world', 'server and clients', 'run', 'loss off, world still', 'check'):
        check(any(line.startswith(step) for line in lines), 'a line that says what is done: ' + step, out)
    code, out, err = through_pipe([program, *options, '--seconds', '1', '--sabotage', 'value'])
    check(code == 1 and not err and out.splitlines()[-1].startswith('FAILED value: '), 'FAILED on the last line', out + err)


def script(program, folder_of_scripts):
    """tools/demo, in a tree where meson and ninja are stand-ins and the program is there already."""
    with tempfile.TemporaryDirectory() as root:
        def put(path, text):
            path = os.path.join(root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            os.chmod(path, 0o755)
        for name in ('demo', 'setup.sh'):
            with open(os.path.join(folder_of_scripts, name), encoding='utf-8') as file:
                put('tools/' + name, file.read())
        put('bin/meson', '#!/bin/sh\n[ "$1" = setup ] && echo >"$2/build.ninja" || echo 1.0.1\n')
        put('bin/ninja', '#!/bin/sh\necho "[1/2] Compiling"\necho "[2/2] Linking"\nexit ${NINJA_FAILS:-0}\n')
        # What there is to look for is not the matter here.
        put('bin/g++', '#!/bin/sh\n')
        put('bin/pkg-config', '#!/bin/sh\n')
        put('bin/zstd', '#!/bin/sh\n')
        put('build/tools/throng_demo', '#!/bin/sh\nexec "%s" "$@"\n' % program)
        found = {'PATH': os.path.join(root, 'bin') + ':' + os.environ['PATH'], 'CXX': os.path.join(root, 'bin/g++')}
        command = [os.path.join(root, 'tools/demo'), '--entities', '2000', '--clients', '8', '--seconds', '1.5']

        json_path = os.path.join(root, 'run.json')
        code, out, err = through_pipe([*command, '--json', json_path], found)
        lines = out.splitlines()
        check(code == 0 and not err and VERIFIED.match(lines[-1]), 'VERIFIED on the last line', out + err)
        check(lines[:1] == ['configuring build/'] and 'build: 100 % (2 of 2)' in lines, 'progress of the build in lines', out)
        check('\x1b' not in out and any('% tick ' in line for line in lines), 'plain lines', repr(out))
        with open(json_path, encoding='utf-8') as file:
            check(json.load(file)['runs'][0]['scenario'] == 'demo', '--json is passed on')
        code, out, err = through_pipe(command, {**found, 'NINJA_FAILS': '1'})
        check(code == 2 and err == 'the build failed\n', 'a build that fails: exit code 2', out + err)
        os.remove(os.path.join(root, 'build/tools/throng_demo'))
        code, out, err = through_pipe(command, found)
        check(code == 2 and err.startswith('tools/demo: the build has no demo program'), 'no program: exit code 2', out + err)


def figures(program, schema_path):
    with open(schema_path, encoding='utf-8') as file:
        schema = json.load(file)['properties']['runs']['items']
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'run.json')
        code, last, out, err = run(program, *SMALL, '--seconds', '0.5', '--json', path)
        check(code == 0 and VERIFIED.match(last), 'verified', out + err)
        with open(path, encoding='utf-8') as file:
            runs = json.load(file)['runs']
    check(len(runs) == 1, 'one run', runs)
    only = runs[0]
    check(set(schema['required']) <= set(only) <= set(schema['properties']), 'the keys are those of the schema', only)
    kinds = {'string': str, 'integer': int, 'number': (int, float), 'boolean': bool, 'object': dict}
    for key, value in only.items():
        rule = schema['properties'][key]
        check(isinstance(value, kinds[rule['type']]) if 'type' in rule else value in rule['enum'], key + ' is as the schema says', only)
    check(only['encodes'] == only['distinct_keys'] and only['pairs'] > 0 and only['ticks'] == 10, 'the figures fit the run', only)
    check(len(only['stages']) == 9 and only['stages']['capture']['cpu_ns'] > 0, 'stage times', only)


def main():
    program, case = sys.argv[1], sys.argv[2]
    if case.startswith('sabotage_'):
        sabotage(program, case[len('sabotage_'):])
    elif case == 'figures':
        figures(program, sys.argv[3])
    elif case == 'script':
        script(program, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
    else:
        {'verified': verified, 'executors': executors, 'bad_options': bad_options, 'bad_trace': bad_trace, 'interrupt': interrupt,
         'terminal': terminal, 'terminal_interrupt': terminal_interrupt, 'pipe': pipe}[case](program)


main()
