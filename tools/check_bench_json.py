#!/usr/bin/env python3
"""Checks that throng_bench writes what bench/bench.schema.json says.

usage: check_bench_json.py THRONG_BENCH SCHEMA [bench options...]

Runs the program with the options and --json, and validates the file against the parts of JSON Schema that the schema uses
(type, required, properties, additionalProperties, items, enum, minimum, minItems, pattern). Exit 0: valid, encodes equal
distinct_keys in every run of the engine, zstd was smaller somewhere in join, by as much as
full_state_ratio says, and each ECS case says what it measured, once, ecs_change marks and scans for each share; 1: not.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int, 'number': (int, float)}


def check(value, schema, where):
    errors = []
    kind = schema.get('type')
    if kind:
        right = isinstance(value, TYPES[kind]) and not (kind in ('integer', 'number') and isinstance(value, bool))
        if not right:
            return [f'{where}: not of type {kind}']
    if 'enum' in schema and value not in schema['enum']:
        errors.append(f'{where}: {value!r} is not one of {schema["enum"]}')
    if 'minimum' in schema and value < schema['minimum']:
        errors.append(f'{where}: {value} is below {schema["minimum"]}')
    if 'pattern' in schema and not re.search(schema['pattern'], value):
        errors.append(f'{where}: {value!r} does not match {schema["pattern"]}')
    if isinstance(value, list):
        if len(value) < schema.get('minItems', 0):
            errors.append(f'{where}: too few items')
        for i, item in enumerate(value):
            errors += check(item, schema.get('items', {}), f'{where}[{i}]')
    if isinstance(value, dict):
        errors += [f'{where}: {name} is missing' for name in schema.get('required', []) if name not in value]
        properties, others = schema.get('properties', {}), schema.get('additionalProperties', True)
        for name, item in value.items():
            if name in properties:
                errors += check(item, properties[name], f'{where}.{name}')
            elif others is False:
                errors.append(f'{where}: {name} is not in the schema')
            elif isinstance(others, dict):
                errors += check(item, others, f'{where}.{name}')
    return errors


def check_ecs(runs):
    errors = []
    for run in runs:
        where = f'{run["scenario"]}/{run.get("case")}'
        errors += [f'{where}: {name} is missing' for name in ('case', 'cache', 'entities') if name not in run]
        figure = 'bytes_per_entity' if run['scenario'] == 'ecs_memory' else 'ns_per_op'
        if not run.get(figure, 0) > 0:
            errors.append(f'{where}: no {figure}')
        if run['scenario'] == 'ecs_each' and run['workers'] == 1 and not run.get('ratio_to_vector', 0) > 0:
            errors.append(f'{where}: no ratio_to_vector')
    cases = [(run['scenario'], run.get('case')) for run in runs]
    if len(set(cases)) != len(cases):
        errors.append('a case appears twice')
    changes = {case for scenario, case in cases if scenario == 'ecs_change'}
    shares = {f'{what}_{percent}_percent_1m' for what in ('mark', 'scan') for percent in ('0.1', '10', '100')}
    if changes:
        errors += [f'ecs_change: {case} is missing' for case in sorted(shares - changes)]
    if runs and len({run['scenario'] for run in runs}) not in (1, 9):
        errors.append('one ECS scenario or all nine are expected')
    return errors


def main():
    if len(sys.argv) < 3 or '--help' in sys.argv:
        print(__doc__)
        return 0 if '--help' in sys.argv else 2
    schema = json.loads(pathlib.Path(sys.argv[2]).read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'bench.json'
        subprocess.run([sys.argv[1], *sys.argv[3:], '--json', str(path)], check=True, stdout=subprocess.DEVNULL)
        output = json.loads(path.read_text())
    errors = check(output, schema, '$')
    if check({'runs': [{}]}, schema, '$') == [] or check({'runs': []}, schema, '$') == []:
        errors.append('the check itself finds nothing wrong with an empty run')
    for run in output.get('runs', []):
        if run.get('engine') == 'throng' and run.get('encodes') != run.get('distinct_keys'):
            errors.append('encodes differ from distinct_keys')
        if run.get('engine') == 'throng' and run.get('scenario') == 'join' and not run.get('zstd_share', 0) > 0:
            errors.append('join: nothing was smaller as zstd')
        if run.get('engine') == 'throng' and run.get('scenario') == 'join' and not 0.5 < run.get('full_state_ratio', 1) < 1:
            errors.append('join: full states are not smaller than packed ones')
        if 'full_state_ratio' in run and run.get('scenario') != 'join':
            errors.append('full_state_ratio is of join')
    errors += check_ecs([run for run in output.get('runs', []) if run.get('scenario', '').startswith('ecs_')])
    print('\n'.join(errors) or f'{len(output["runs"])} runs valid')
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
