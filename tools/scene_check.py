#!/usr/bin/env python3
"""Decodes a scene file of the binary form, from docs/scene.md alone, and compares it with a JSON scene of the same world.

    scene_check.py BINARY JSON

Exit code: 0 equal, 1 different or not well-formed, 2 bad use.
"""
import json
import math
import struct
import sys

F32, F64, SIGNED, UNSIGNED, BOOLEAN, REFERENCE = range(6)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        taken = self.data[self.at:self.at + count]
        if len(taken) != count:
            raise ValueError('ends too early at byte %d' % self.at)
        self.at += count
        return taken

    def integer(self, count):
        return int.from_bytes(self.bytes(count), 'little')

    def varint(self):
        value = shift = 0
        while True:
            byte = self.integer(1)
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self):
        return self.bytes(self.integer(1)).decode()


def value_of(kind, code):
    if kind in (F32, F64):
        size = 4 if kind == F32 else 8
        value = struct.unpack('<f' if kind == F32 else '<d', code.to_bytes(size, 'little'))[0]
        return value if math.isfinite(value) else '0x%0*x' % (2 * size, code)
    if kind == SIGNED:
        return (code >> 1) ^ -(code & 1)
    if kind == BOOLEAN:
        return bool(code)
    if kind == REFERENCE:
        return code - 1 if code else None
    return code


def read_owners(reader, entities):
    if reader.integer(1) == 0:
        mask = reader.bytes((entities + 7) // 8)
        return [i for i in range(entities) if mask[i // 8] >> i % 8 & 1]
    owners, following = [], 0
    for _ in range(reader.varint()):
        owners.append(following + reader.varint())
        following = owners[-1] + 1
    return owners


def read_values(reader, owners_of):
    """One component, into the objects of its owners: owners_of(reader) gives these, in the order of the file."""
    component, field_count = reader.name(), reader.integer(1)
    fields = [] if field_count == 255 else [(reader.name(), reader.integer(1)) for _ in range(field_count)]
    owners = owners_of(reader)
    if field_count == 255:
        for owner in owners:
            owner[component] = reader.bytes(reader.varint()).hex()
        return
    for owner in owners:
        owner[component] = {}
    for field, kind in fields:
        width = reader.integer(1)
        for owner in owners:
            owner[component][field] = value_of(kind, reader.integer(width))


def read_scene(data):
    reader = Reader(data)
    if reader.bytes(8) != b'THRSCENE':
        raise ValueError('not a scene')
    version, protocol = reader.integer(2), '%016x' % reader.integer(8)
    if version not in (1, 2):
        raise ValueError('a scene of version %d' % version)
    entities, resources = [{} for _ in range(reader.varint())], {}
    for _ in range(reader.integer(1)):
        read_values(reader, lambda reader: [entities[i] for i in read_owners(reader, len(entities))])
    for _ in range(reader.integer(1) if version == 2 else 0):
        read_values(reader, lambda reader: [resources])
    if reader.at != len(data):
        raise ValueError('something behind the end, at byte %d' % reader.at)
    return version, protocol, entities, resources


def same(a, b):
    """Of values: numbers by value, and a float's sign of zero. A 32-bit float in JSON is the shortest text that rounds to it."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        if isinstance(b, (str, bool)) or b is None or math.copysign(1, a) != math.copysign(1, b):
            return False
        return a == b or a == struct.unpack('<f', struct.pack('<f', b))[0]
    return type(a) is type(b) and a == b


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(arguments[0], 'rb') as file:
        data = file.read()
    with open(arguments[1], encoding='utf-8') as file:
        # "-0" is a whole number to Python, and loses its sign there
        scene = json.load(file, parse_int=lambda text: -0.0 if text == '-0' else int(text))
    try:
        version, protocol, entities, resources = read_scene(data)
    except (ValueError, IndexError) as error:
        print('%s: %s' % (arguments[0], error))
        return 1
    findings = [] if scene['throng_scene'] == version and scene['protocol'] == protocol else ['the heads differ']
    if not same(resources, scene.get('resources', {})):
        findings.append('resources: %s and %s' % (resources, scene.get('resources')))
    if len(entities) != len(scene['entities']):
        findings.append('%d and %d entities' % (len(entities), len(scene['entities'])))
    findings += ['entity %d: %s and %s' % (i, a, b) for i, (a, b) in enumerate(zip(entities, scene['entities'])) if not same(a, b)]
    for finding in findings:
        print(finding)
    print('scene_check: %d entities, %d components, %d resources, %d findings' %
          (len(entities), sum(map(len, entities)), len(resources), len(findings)))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
