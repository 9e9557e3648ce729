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


def terminal(program):
    process, screen = pty.fork()
    if process == 0:
        os.environ['TERM'] = 'xterm'
        os.execv(program, [program, '--entities', '500', '--clients', '4', '--seconds', '3'])
    data, deadline = b'', time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            piece = os.read(screen, 65536)
        except OSError: # the other end is closed
            break
        if not piece:
            break
        data += piece
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    text = data.decode()
    last = text.splitlines()[-1].split('\x1b[K')[-1]
    check(status == 0 and VERIFIED.match(last), 'VERIFIED on the last line', repr(text))
    check(re.search(r'\x1b\[\d+A', text), 'the table is updated in place', repr(text))
    for word in ('acks', 'mark', 'structure', 'capture', 'interest', 'plan', 'encode', 'assemble', 'flush', 'baseline age'):
        check(word in text, word + ' in the table', repr(text))


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
    else:
        {'verified': verified, 'executors': executors, 'bad_options': bad_options, 'bad_trace': bad_trace, 'interrupt': interrupt,
         'terminal': terminal}[case](program)


main()
