#!/usr/bin/env python3
"""Holds the table of costs in docs/guide.md to the public calls of the ECS.

    tools/check_guide_table.py [--root DIR] [--list]

The table is the one under the line `| call | cost | invalidates |`. Its first column names calls in backticks: those of the world by
their names, others with their type, as `ChangeReader::each`; names behind one with a type, in the same cell, belong to that type.
Template arguments and parameters are not compared. Each public function of the classes below, constructors and destructors that do
something among them, must be named there, and each name must be such a function. No cell may be empty.

  --list   prints the calls that the headers have, instead of comparing

Exit codes: 0 all equal, 1 differences (one a line), 2 bad use.
"""
import argparse
import os
import re
import sys

GUIDE = 'docs/guide.md'
HEAD = '| call | cost | invalidates |'
# Header, class, and the type whose calls they are for the guide.
CLASSES = [
    ('world_class', 'BasicWorld', 'World'), ('world_state', 'WorldState', 'World'),
    ('world_each', 'Row', 'Row'), ('world_query', 'BasicLazyEntity', 'LazyEntity'),
    ('world_changes', 'BasicChangeReader', 'ChangeReader'), ('world_changes', 'BasicDestroyReader', 'DestroyReader'),
    ('commands', 'CommandQueueBase', 'CommandQueue'), ('commands', 'BasicCommandQueue', 'CommandQueue'),
    ('commands', 'BasicCommands', 'Commands'), ('resources', 'Resources', 'Resources'),
    ('prefab', 'PrefabValues', 'Prefab'), ('prefab', 'BasicPrefab', 'Prefab'),
    ('world_snapshot', 'BasicWorldSnapshot', 'WorldSnapshot'), ('world_partial', 'BasicPartialSnapshot', 'PartialSnapshot'),
    ('world_rollback', 'BasicRollbackRing', 'RollbackRing'),
]
PAIRS = {'(': ')', '{': '}', '[': ']'}


def end_of(text, begin):
    """Behind the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        if text[i] in PAIRS:
            depth += 1
        elif text[i] in PAIRS.values():
            depth -= 1
            if depth == 0:
                return i + 1
    raise ValueError('a bracket that nothing closes')


def body_of(text, name):
    """What is between the braces of a class; raises ValueError when there is none."""
    found = re.search(r'\b(?:class|struct)\s+%s\b[^;{]*\{' % name, text)
    if not found:
        raise ValueError('no class ' + name)
    return text[found.end():end_of(text, found.end() - 1) - 1]


def declarations(body):
    """(access, text up to the body or semicolon, what follows an `=`) of what is declared in a class."""
    access = 'private'
    begin = i = 0
    while i < len(body):
        label = re.compile(r'\s*(public|protected|private)\s*:(?!:)').match(body, i) if begin == i else None
        if label:
            access = label.group(1)
            begin = i = label.end()
        elif body[i] in '([':
            i = end_of(body, i)
        elif body[i] == '{':
            yield access, body[begin:i]
            i = end_of(body, i)
            begin = i
        elif body[i] == ';':
            yield access, body[begin:i]
            i += 1
            begin = i
        else:
            i += 1


def without_angles(text):
    """Without what is between < and >, so that the first name in front of ( is the function's."""
    out = ''
    depth = 0
    for i, letter in enumerate(text):
        if letter == '<':
            depth += 1
        elif letter == '>' and text[i - 1] != '-':
            depth -= 1
        elif depth == 0:
            out += letter
    return out


def function_of(declaration, class_name, type_name):
    """The name of the function that is declared, or None."""
    text = declaration.strip()
    while True: # what stands in front
        if text.startswith('template'):
            depth = 0
            for i, letter in enumerate(text):
                depth += (letter == '<') - (letter == '>')
                if letter == '>' and depth == 0:
                    break
            text = text[i + 1:].strip()
        elif re.match(r'requires\s*\(', text):
            text = text[end_of(text, text.index('(')):].strip()
        elif text.startswith('[['):
            text = text[end_of(text, 0):].strip()
        else:
            break
    if re.match(r'(using|friend|static_assert|class|struct|enum)\b|[,:]|$', text) or re.search(r'\boperator\b', text):
        return None
    text = without_angles(text)
    found = re.search(r'(~?\w+)\s*\(', text)
    if not found or '=' in text[:found.start()]:
        return None
    name = found.group(1)
    parameters = text[found.end() - 1:end_of(text, found.end() - 1)]
    if re.search(r'=\s*delete$', text):
        return None
    if name.lstrip('~') == class_name:
        copied = re.match(r'\(\s*(const\s+)?%s\s*&' % class_name, parameters)
        return None if copied or re.search(r'=\s*default$', text) else name.replace(class_name, type_name)
    return name


def calls_of(root):
    """{(type, function): header}."""
    calls = {}
    for header, class_name, type_name in CLASSES:
        path = 'include/throng/%s.hpp' % header
        with open(os.path.join(root, path), encoding='ascii') as file:
            text = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', '', file.read())
        for access, declaration in declarations(body_of(text, class_name)):
            name = function_of(declaration, class_name, type_name) if access == 'public' else None
            if name:
                calls.setdefault((type_name, name), path)
    return calls


def named_calls(lines):
    """{(type, function): line number} of the table, and findings about its form."""
    names, findings = {}, []
    begin = lines.index(HEAD)
    for number, line in enumerate(lines[begin + 2:], begin + 3):
        if not line.startswith('|'):
            break
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) != 3 or not all(cells):
            findings.append('%s:%d: a row has three cells, none empty' % (GUIDE, number))
        type_name = 'World'
        for text in re.findall(r'`([^`]+)`', cells[0]):
            name = re.sub(r'\(.*\)$', '', without_angles(text))
            if '::' in name:
                type_name, name = name.split('::', 1)
            names.setdefault((type_name, name), number)
    return names, findings


def shown(call):
    return call[1] if call[0] == 'World' else '::'.join(call)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument('--root', default=os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    parser.add_argument('--list', action='store_true')
    arguments = parser.parse_args()
    try:
        calls = calls_of(arguments.root)
    except (OSError, ValueError) as error:
        print(error)
        return 2
    if arguments.list:
        for call in calls:
            print(shown(call))
        return 0
    with open(os.path.join(arguments.root, GUIDE), encoding='utf-8') as file:
        lines = file.read().split('\n')
    if HEAD not in lines:
        print('%s: no table of calls' % GUIDE)
        return 1
    names, findings = named_calls(lines)
    findings += ['%s: not in the table of %s: %s' % (calls[call], GUIDE, shown(call)) for call in calls if call not in names]
    findings += ['%s:%d: no public call of this name: %s' % (GUIDE, names[call], shown(call)) for call in names if call not in calls]
    for finding in findings:
        print(finding)
    print('%d calls, %d findings' % (len(calls), len(findings)))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
