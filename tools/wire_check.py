#!/usr/bin/env python3
"""Decodes every packet of a golden file to the last bit and re-encodes it to the same bytes.

Written from docs/wire.md alone, and independent of the C++ code. Payloads compressed with zstd are expanded, decoded, and the
re-encoded wide body is compared with the expanded bytes (what zstd makes of a body differs between its versions).

usage: wire_check.py FILE                             check a golden file
       wire_check.py --shows KIND,KIND FILE           the same, and the file must hold each of these kinds (names: what a check prints)
       wire_check.py --run PROGRAM [ARGUMENT]         check what PROGRAM prints
       wire_check.py --same FILE PROGRAM [ARGUMENT]   PROGRAM prints what FILE holds, byte for byte. With another zstd than the
                                                      file's ("zstd_version"): exit 77, not comparable. In a file without one,
                                                      lines marked "zstd": true may differ
       wire_check.py --record FILE PROGRAM [ARGUMENT] [-- FILE PROGRAM ...]   write what PROGRAM prints to FILE

A golden file has one JSON object a line. The first describes the protocol:
  {"throng_golden": 1, "cell_steps": 6000, "dictionary": "<hex>", "components": [
     {"name": "position", "columns": [
        {"bytes": 2, "kind": "range"|"angle"|"integer"|"reference", "type": "int16", "min": -5, "max": 5, "angle_bits": 0,
         "spatial_axis": -1, "velocity_column": -1, "velocity_factor": 0}, ...]},
     {"name": "title", "opaque_bytes_max": 40, "columns": []}, ...]}
"diffs": "append" in an opaque component: it has diffs, and the bytes of an op are put behind those that are there.
"bytes" is the size of a column's element; "min" and "max" bound the steps of ranges that are not spatial; "type" is the field's and
matters for integers; "velocity_column" counts the columns of all components. "messages" describes the typed messages, if there are any:
  [{"name": "hit", "waits_for_tick": false, "bytes_max": 1024, "rest": false, "references": 2, "fields": [
     {"kind": "range", "type": "f32", "min": -5, "max": 5, "angle_bits": 0}, ...]}, ...]
Further keys: "hashes": true means that acks carry real
state hashes, to be checked; "zstd_version" is that of the recorder. Every other line is one message in the order of delivery:
  {"client": 0, "zstd": false, "message": "<hex>"}
or tells the protocol of a client that does not agree with the server's, and what the client says about that:
  {"client": 1, "own_table": "<hex>", "problem": "tick_hz: 20 there, 30 here"}
"client" (default 0) tells connections apart; "zstd" (default false) marks messages whose bytes depend on the version of zstd. A
delta's baseline is what earlier messages of the same client left: the newest state of each lane that was carried at or before the
baseline tick. Messages that were lost are left out. The state hash in an ack must be that of the state decoded up to its tick.
"""
import json
import subprocess
import sys

from wire_body import (Bad, Has, Noise, Protocol, RAW_BYTES_MAX, Section, decode_body, encode_body, need, prediction_of, read_varint,
                       signed, write_varint)
from wire_table import Table, check_table, what_differs
from wire_typed import check_bundle
from xxh3 import xxh3, xxh3_128


# ---- messages ----
class Client:
    """Per chunk and lane: (tick, net id, components), oldest first, also where messages came late. Components is None after a "gone"."""

    def __init__(self):
        self.chunks = {}
        self.newest = None
        self.ages = set()
        self.hash = None

    def hear(self, tick, counts):
        late = self.newest is not None and signed(tick - self.newest, 32) < 0
        counts["late"] += late
        if not late:
            self.newest = tick

    def baseline(self, chunk, tick):
        state = {}
        for lane, versions in self.chunks.get(chunk, {}).items():
            held = [version for version in versions if signed(tick - version[0], 32) >= 0]
            if held and held[-1][2] is not None:
                state[lane] = held[-1]
        return state

    def put(self, chunk, lane, tick, net_id, components):
        versions = self.chunks.setdefault(chunk, {}).setdefault(lane, [])
        at = len(versions)
        while at > 0 and signed(versions[at - 1][0] - tick, 32) > 0:
            at -= 1
        versions.insert(at, (tick, net_id, components))

    def state_hash(self, protocol, tick):
        total = 0
        for chunk in self.chunks:
            for lane, (_, net_id, components) in self.baseline(chunk, tick).items():
                for component, has in [(255, None)] + list(enumerate(components)):
                    if has is None and component != 255:
                        continue
                    term = chunk.to_bytes(4, "little") + bytes([lane, component]) + net_id.to_bytes(8, "little")
                    if has and has.data is not None:
                        term += xxh3(has.data).to_bytes(8, "little")
                    for value in has.values if has else []:
                        term += (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
                    total += xxh3(term)
        return total & 0xFFFFFFFFFFFFFFFF


def check_payload(protocol, client, payload, chunk, tick, counts):
    flags = payload[0]
    need(flags & ~7 == 0 and flags & 5 != 4, "unknown flags")
    at = 1
    age = 0
    if not flags & 1:
        age, at = read_varint(payload, at)  # refuses superfluous bytes, so it would be written the same way
        need(age > 0, "age 0")
    section = Section(bool(flags & 1), age, bool(flags & 2), bool(flags & 4))
    held = client.baseline(chunk, tick - age & 0xFFFFFFFF) if age else {}
    base = {lane: version[2] for lane, version in held.items()}
    body, noise = payload[at:], b""
    if section.wide:
        size, at = read_varint(payload, at)
        noise_size, at = read_varint(payload, at)
        need(0 < size <= RAW_BYTES_MAX, "raw size out of range")
        need(noise_size <= len(payload) - at, "noise too short")
        noise = payload[at : at + noise_size]
        body = protocol.expand(payload[at + noise_size :], size)
    decode_body(protocol, body, Noise(noise), section, base)
    again, noise_again = encode_body(protocol, section, base)
    need(again == body, "re-encoded body differs:\n  %s\n  %s" % (body.hex(), again.hex()))
    need(noise_again == noise, "re-encoded noise differs:\n  %s\n  %s" % (noise.hex(), noise_again.hex()))
    for number, (opaque_max, _) in enumerate(protocol.components):
        for lane, has in section.components[number].items() if opaque_max else ():
            before = has.data if section.full else base[lane][number] and base[lane][number].data
            has.data = section.opaque[number].get(lane, before)
            if lane in section.ops[number]:
                need(protocol.diffs[number] == "append" and before is not None, "ops that cannot be done")
                has.data = before + b"".join(op for _, op in section.ops[number][lane])
                counts["ops"] += len(section.ops[number][lane])
            need(has.data is not None, "an opaque component without bytes")
    for lane in section.lanes:
        components = [by_lane.get(lane) for by_lane in section.components]
        for column in protocol.columns:
            has = components[column.component]
            counts["references"] += bool(column.reference and has and has.values[column.field])
            counts["extrapolated"] += bool(age and column.velocity >= 0 and prediction_of(protocol, column, section, base, lane)
                                           != (base[lane][column.component] or Has(0, [0] * 99)).values[column.field])
        client.put(chunk, lane, tick, section.net_ids[lane] if section.full else held[lane][1], components)
    counts["full" if section.full else "delta"] += 1
    if age and age not in client.ages:
        client.ages.add(age)
        counts["ages"] += 1
    counts["zstd"] += section.wide
    counts["kept"] += sum(len(chosen) for chosen in section.kept)
    counts["lanes"] += len(section.lanes)
    counts["opaque"] += sum(len(opaque) for opaque in section.opaque)


def read_head(client, message, counts):
    """The tick, and where the rest begins."""
    need(len(message) >= 8, "state message too short")
    tick, at = int.from_bytes(message[3:7], "little"), 8
    if message[0] & 0x40:
        need(len(message) > 8 and message[8] > 0, "userdata of no bytes")
        at += 1 + message[8]
        need(len(message) >= at, "userdata too short")
        counts["userdata"] += 1
    client.hear(tick, counts)
    return tick, at


def check_state(protocol, client, message, counts):
    tick, at = read_head(client, message, counts)
    counts["heartbeats"] += len(message) == at
    chunk = 0
    while at < len(message):
        start = at
        step, at = read_varint(message, at)
        chunk += step
        size, at = read_varint(message, at)
        again = write_varint(step) + write_varint(size)
        if size & 1:
            used = message[at]
            need(used != 0 and at + 1 + bin(used).count("1") <= len(message), "gone mask")
            mask, at = 0, at + 1
            for i in range(8):
                if used >> i & 1:
                    need(message[at] != 0, "gone mask with a zero byte")
                    mask |= message[at] << (8 * i)
                    at += 1
            parts = mask.to_bytes(8, "little")
            again += bytes([used]) + bytes(byte for byte in parts if byte)
            for lane in range(64):
                if mask >> lane & 1:
                    client.put(chunk, lane, tick, 0, None)
            counts["gone"] += 1
        need(again == message[start:at], "re-encoded section head differs")
        need(size > 0, "empty section")
        payload = message[at : at + (size >> 1)]
        need(len(payload) == size >> 1, "payload too short")
        at += len(payload)
        if payload:
            check_payload(protocol, client, payload, chunk, tick, counts)


def check_ends(client, message, counts):
    _, start = read_head(client, message, counts)
    need(len(message) > start and (len(message) - start) % 8 == 0, "ends of another size")
    ids = [int.from_bytes(message[at : at + 8], "little") for at in range(start, len(message), 8)]
    need(all(a < b for a, b in zip([0] + ids, ids)), "ends do not ascend")
    counts["ends"] += len(ids)


def check_ack(protocol, client, message, counts):
    blocks = message[1]
    at = 2 + 10 * blocks
    need(at <= len(message), "ack too short")
    unapplied, at = read_varint(message, at)
    for _ in range(unapplied):
        at += 2
        _, at = read_varint(message, at)
    need(at < len(message) and message[at] in (0, 1), "ack without hash flag")
    need(len(message) == at + 1 + 12 * message[at], "ack of another size")
    if message[at] and protocol.hashes:
        tick = int.from_bytes(message[at + 1 : at + 5], "little")
        need(client.state_hash(protocol, tick) == int.from_bytes(message[at + 5 :], "little"), "state hash differs at tick %d" % tick)
        counts["hashes"] += 1
    counts["acks"] += 1
    counts["unapplied"] += unapplied


REASONS = {1: "protocol", 2: "full", 3: "unauthorized"}


class Greeting:
    """How a client comes to join, or does not."""

    def __init__(self):
        self.own = self.problem = None  # the table of its protocol, where it is told; what it says differs
        self.version = self.hash = None  # of its last hello
        self.told = None  # the table
        self.over = None  # joined or rejected

    def own_table(self, line):
        self.own, self.problem = bytes.fromhex(line["own_table"]), line["problem"]
        need(Table(self.own).write() == self.own, "re-encoded table differs")

    def hello(self, message, counts):
        version = int.from_bytes(message[1:5], "little")
        self.version, self.over = version, None
        if version == 1: # what others say is not known
            need(21 <= len(message) <= 21 + 1024, "hello of another size")
            self.hash = message[5:21]
            need(self.own is None or self.hash == hash_of(self.own), "the hash of a hello is not that of the client's protocol")
        counts["hellos"] += 1

    def table(self, table, counts):
        self.told = table
        if self.own:
            what = what_differs(table, self.own)
            need(what == self.problem, "the client says '%s' differs, and it is '%s'" % (self.problem, what))
            counts["differences"] += 1

    def welcome(self, message):
        need(self.version == 1 and self.hash == message[1:17], "a welcome that no hello has asked for")
        need(self.over is None, "a second answer to a hello")
        self.over = "joined"

    def reject(self, message, counts):
        need(2 <= len(message) <= 202 and message[1] in REASONS, "reject reason")
        reason, text = REASONS[message[1]], message[2:].decode()
        need(bytes([3, message[1]]) + text.encode() == message, "re-encoded reject differs")
        need(self.over is None, "a second answer to a hello")
        if reason == "protocol" and self.version == 1:
            need(self.told is None or self.hash != hash_of(self.told), "rejected for its protocol, and has the server's")
        if self.own:
            need(reason == "protocol" and self.told is not None, "another protocol, and no table has been told")
        self.over = "rejected"
        counts["rejects"] += 1
        counts["reject_" + ("version" if reason == "protocol" and self.version not in (None, 1) else reason)] += 1


def hash_of(table):
    return b"".join(half.to_bytes(8, "little") for half in xxh3_128(table))


def check_message(protocol, clients, greetings, line, counts):
    greeting = greetings.setdefault(line.get("client", 0), Greeting())
    if "own_table" in line:
        greeting.own_table(line)
        return
    message = bytes.fromhex(line["message"])
    need(len(message) > 0, "empty message")
    kind = message[0] & 0x7F
    counts["messages"] += 1
    number = line.get("client", 0)
    if kind & ~0x40 in (4, 7):
        kind &= ~0x40
    if kind in (2, 4, 7, 8):
        need(greeting.over != "rejected", "said to a client that was turned away")
    if kind == 4:
        check_state(protocol, clients[number], message, counts)
        return
    if kind == 7:
        check_ends(clients[number], message, counts)
        return
    if kind == 6:
        check_bundle(protocol, message, counts)
        return
    need(message[0] < 0x80, "unknown kind")
    if kind == 1:
        greeting.hello(message, counts)
    elif kind == 2:
        need(len(message) == 27, "welcome of another size")
        need(int.from_bytes(message[23:27], "little") == protocol.cell_steps, "another cell edge")
        told = clients[number].hash if number in clients else None
        need(told in (None, message[1:17]), "the table has another hash than the welcome")
        greeting.welcome(message)
        clients[number] = Client()
    elif kind == 3:
        greeting.reject(message, counts)
    elif kind == 8:
        check_table(protocol.header, message[1:])
        clients[number] = Client()
        clients[number].hash = hash_of(message[1:])
        greeting.table(message[1:], counts)
        counts["tables"] += 1
    elif kind == 5:
        check_ack(protocol, clients[number], message, counts)
    else:
        raise Bad("unknown kind")


COUNTED = ("messages", "full", "delta", "lanes", "zstd", "opaque", "gone", "references", "extrapolated", "ages", "late", "heartbeats",
           "acks", "unapplied", "hashes", "bundles", "typed", "typed_references", "typed_ticks", "rests", "before_join",
           "ends", "tables", "userdata", "ops", "kept", "hellos", "differences", "rejects", "reject_protocol", "reject_version",
           "reject_full", "reject_unauthorized")


def check(lines, name, shows=()):
    header = json.loads(lines[0])
    need(header.get("throng_golden") == 1, "not a golden file")
    protocol, clients, greetings = Protocol(header), {}, {}
    counts = dict.fromkeys(COUNTED, 0)
    for number, text in enumerate(lines[1:], 2):
        try:
            check_message(protocol, clients, greetings, json.loads(text), counts)
        except (Bad, IndexError, KeyError) as error:
            raise Bad("%s:%d: %s" % (name, number, error if isinstance(error, Bad) else repr(error))) from error
    need(counts["messages"] > 0, "%s: no messages" % name)
    print("%s: %s" % (name, ", ".join("%d %s" % (value, key) for key, value in counts.items())))
    for kind in shows:
        need(counts.get(kind, 0) > 0, "%s: shows no '%s'" % (name, kind))


def output_of(command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def load(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def same(first, second, name):
    """The exit code."""
    versions = [json.loads(lines[0]).get("zstd_version") for lines in (first, second)]
    if versions[0] != versions[1]:
        print("%s: recorded with zstd %s, this one is %s: not comparable" % (name, *versions))
        return 77
    need(len(first) == len(second), "%s: another number of messages" % name)
    for number, (a, b) in enumerate(zip(first, second), 1):
        free = versions[0] is None and json.loads(a).get("zstd", False) and json.loads(b).get("zstd", False)
        need(a == b or free, "%s:%d: the bytes differ" % (name, number))
    return 0


def record(arguments):
    while arguments:
        end = arguments.index("--") if "--" in arguments else len(arguments)
        text = output_of(arguments[1:end])
        check(text.splitlines(), arguments[0])
        with open(arguments[0], "w", encoding="utf-8") as file:
            file.write(text)
        arguments = arguments[end + 1 :]


def main(arguments):
    if arguments[:1] == ["--run"] and len(arguments) > 1:
        check(output_of(arguments[1:]).splitlines(), arguments[1])
    elif arguments[:1] == ["--same"] and len(arguments) > 2:
        return same(load(arguments[1]), output_of(arguments[2:]).splitlines(), arguments[1])
    elif arguments[:1] == ["--record"] and len(arguments) > 2:
        record(arguments[1:])
    elif arguments[:1] == ["--shows"] and len(arguments) == 3:
        check(load(arguments[2]), arguments[2], arguments[1].split(","))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        check(load(arguments[0]), arguments[0])
    else:
        print(__doc__.strip())
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Bad, OSError, ValueError, subprocess.CalledProcessError) as trouble:
        print("wire_check: %s" % trouble, file=sys.stderr)
        sys.exit(1)
