#!/usr/bin/env python3
"""Shows that the simulator finds what it should.

    check_simulator.py sabotage THRONG_SIM   each kind of damage at the end of a run fails under its own name
    check_simulator.py bugs THRONG_SIM       each seeded bug fails within 300 seeds, and without one none does
"""
import re
import subprocess
import sys

SEEDS = '300'


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout


def check_sabotage(program):
    wrong = 0
    for kind in ('value', 'ghost', 'missing', 'reference', 'stale'):
        code, output = run(program, '--seeds', '20', '--sabotage', kind)
        named = re.findall(r'FAILED seed \d+: tick \d+: (\w+):', output)
        good = code == 1 and named and set(named) == {kind}
        print(f'sabotage {kind}: {"found" if good else "NOT FOUND"}, {len(named)} times, exit {code}')
        wrong += not good
    return wrong


def check_bugs(program):
    code, output = run(program, '--bug', 'list')
    bugs = output.split()
    wrong = code != 0 or len(bugs) != 12
    for bug in bugs:
        code, output = run(program, '--seeds', SEEDS, '--bug', bug)
        first = re.search(r'FAILED (seed \d+: .*)', output)
        good = code == 1 and first
        print(f'{bug}: {first.group(1)[:160] if good else "NOT CAUGHT"}')
        wrong += not good
    code, output = run(program, '--seeds', SEEDS)
    print('without a bug:', *re.findall(r'\d+ seeds, \d+ failed|NEVER.*', output))
    return wrong + (code != 0)


if len(sys.argv) != 3 or sys.argv[1] not in ('sabotage', 'bugs'):
    sys.exit(__doc__)
sys.exit(1 if (check_sabotage if sys.argv[1] == 'sabotage' else check_bugs)(sys.argv[2]) else 0)
