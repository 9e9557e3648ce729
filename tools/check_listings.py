#!/usr/bin/env python3
"""Holds the listings of README.md and docs/guide.md to compiled sources.

    tools/check_listings.py [--root DIR] [--write] [DOCUMENT ...]

A listing is a fenced block behind a marker, with nothing between them but empty lines:

    <!-- listing: tests/guide/embed.cpp embed -->

It must equal the lines of that file between the lines that hold [embed] and [/embed] in a comment, without their common
indentation. A fenced block of a language that is compiled (cpp, meson, cmake) must have a marker; others, such as commands,
need none. The listing of README.md has 25 lines at most. Links from the documents to files of the tree must lead somewhere.

  --write   copies the sources into the documents, instead of comparing

Exit codes: 0 all equal, 1 differences (one a line), 2 bad use.
"""
import argparse
import os
import re
import sys
import textwrap

DOCUMENTS = ['README.md', 'CHANGELOG.md', 'docs/guide.md', 'docs/architecture.md', 'docs/scene.md', 'docs/tuning.md', 'docs/wire.md']
LINES_MAX = {'README.md': 25}
COMPILED = ('cpp', 'c++', 'meson', 'cmake')
MARKER = re.compile(r'^<!-- listing: (\S+) (\w+) -->$')
LINK = re.compile(r'\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)')


def snippet(root, path, name):
    """The lines of a snippet; raises ValueError when there is none, or more than one."""
    try:
        with open(os.path.join(root, path), encoding='ascii') as file:
            lines = file.read().split('\n')
    except OSError:
        raise ValueError('no such file: ' + path) from None
    begin = [i for i, line in enumerate(lines) if re.fullmatch(r'\s*(?://|#) \[%s\]' % name, line)]
    end = [i for i, line in enumerate(lines) if re.fullmatch(r'\s*(?://|#) \[/%s\]' % name, line)]
    if len(begin) != 1 or len(end) != 1 or end[0] <= begin[0]:
        raise ValueError('no snippet [%s] in %s, or more than one' % (name, path))
    return textwrap.dedent('\n'.join(lines[begin[0] + 1:end[0]])).split('\n')


def blocks(lines):
    """(marker or None, language, first line of the block, line after its last), by line index."""
    marker = None
    i = 0
    while i < len(lines):
        found = MARKER.match(lines[i])
        if found:
            marker = found.groups()
        elif lines[i].startswith('```'):
            end = i + 1
            while end < len(lines) and not lines[end].startswith('```'):
                end += 1
            yield marker, lines[i][3:].strip(), i + 1, end
            marker = None
            i = end
        elif lines[i].strip():
            if marker:
                yield marker, None, i, i
            marker = None
        i += 1
    if marker:
        yield marker, None, len(lines), len(lines)


def check(root, document, write):
    with open(os.path.join(root, document), encoding='utf-8') as file:
        lines = file.read().split('\n')
    findings = []
    count = 0
    for marker, language, begin, end in reversed(list(blocks(lines))):
        where = '%s:%d: ' % (document, begin)
        if language is None:
            findings.append(where + 'a marker without a listing: %s %s' % marker)
        elif marker is None:
            if language in COMPILED:
                findings.append(where + 'a listing without a marker')
        else:
            count += 1
            try:
                source = snippet(root, *marker)
            except ValueError as error:
                findings.append(where + str(error))
                continue
            if len(source) > LINES_MAX.get(document, len(source)):
                findings.append(where + '%d lines, the limit is %d' % (len(source), LINES_MAX[document]))
            if lines[begin:end] == source:
                continue
            if write:
                lines[begin:end] = source
            else:
                findings.append(where + 'differs from [%s] in %s' % (marker[1], marker[0]))
    if write:
        with open(os.path.join(root, document), 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines))
    text = '\n'.join(lines)
    for target in LINK.findall(text):
        if not re.match(r'\w+:', target) and not os.path.exists(os.path.join(root, os.path.dirname(document), target)):
            findings.append('%s: a link leads nowhere: %s' % (document, target))
    return count, findings[::-1]


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument('--root', default=os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    parser.add_argument('--write', action='store_true')
    parser.add_argument('documents', nargs='*')
    arguments = parser.parse_args()
    total = 0
    wrong = 0
    for document in arguments.documents or DOCUMENTS:
        count, findings = check(arguments.root, document, arguments.write)
        total += count
        wrong += len(findings)
        for finding in findings:
            print(finding)
    print('%d listings, %d findings' % (total, wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
