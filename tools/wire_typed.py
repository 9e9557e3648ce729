"""Typed messages of docs/wire.md 5, read to the last bit and written again. Written from that document alone."""
from wire_body import Reader, Writer, need, read_varint, write_varint

BITS = {"boolean": 1, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}


def width_of(field):
    if field["kind"] == "range":
        return (field["max"] - field["min"]).bit_length()
    return field["angle_bits"] if field["kind"] == "angle" else BITS[field["type"]]


def check_payload(message, payload, counts):
    at = 4 if message["waits_for_tick"] else 0
    again = payload[:at]
    for _ in range(message["references"]):
        word, at = read_varint(payload, at)
        again += write_varint(word)
        if word:
            index, at = read_varint(payload, at)
            again += write_varint(index)
        counts["typed_references"] += word != 0
    widths = [width_of(field) for field in message["fields"]]
    size = (sum(widths) + 7) // 8
    need(at + size <= len(payload), "typed message too short")
    reader, writer = Reader(payload[at : at + size]), Writer()
    for field, width in zip(message["fields"], widths):
        code = reader.bits(width)
        need(field["kind"] != "range" or code <= field["max"] - field["min"], "value outside its range")
        writer.bits(code, width)
    reader.align()
    again += writer.value.to_bytes(size, "little")
    rest = payload[at + size :]
    need(message["rest"] or not rest, "bytes behind the last field")
    need(again + rest == payload, "re-encoded typed message differs")


def check_bundle(protocol, bundle, counts):
    at = 1
    if bundle[0] & 0x80:
        need(len(bundle) > 17, "bundle without items")
        counts["before_join"] += 1
        at = 17
    need(at < len(bundle), "bundle without items")
    while at < len(bundle):
        start = at
        number, at = read_varint(bundle, at)
        size, at = read_varint(bundle, at)
        need(bundle[start:at] == write_varint(number) + write_varint(size), "re-encoded item head differs")
        need(number < len(protocol.messages), "a number that is not registered")
        message = protocol.messages[number]
        need(size <= message["bytes_max"] and at + size <= len(bundle), "typed message too long")
        check_payload(message, bundle[at : at + size], counts)
        at += size
        counts["typed"] += 1
        counts["rests"] += message["rest"]
        counts["typed_ticks"] += message["waits_for_tick"]
    counts["bundles"] += 1
