"""The table of a protocol, docs/wire.md 6: read, written again, and compared with the protocol that a golden file names. Written from that
document alone."""
import struct

from wire_body import need, read_varint, write_varint

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "boolean")
INTEGER_BYTES = {"int8": 2, "uint8": 2, "int16": 2, "uint16": 2, "boolean": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8}
VALUE_BITS = {"boolean": 1, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}


class Input:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        need(self.at + count <= len(self.data), "table too short")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self, count):
        return int.from_bytes(self.bytes(count), "little")

    def signed(self, count):
        return int.from_bytes(self.bytes(count), "little", signed=True)

    def varint(self):
        value, self.at = read_varint(self.data, self.at)
        return value

    def name(self):
        length = self.integer(1)
        need(length <= 47, "a name of more than 47 bytes")
        return self.bytes(length)


def read_field(table):
    field = {"name": table.name(), "kind": table.integer(1)}
    if field["kind"] == 0:
        field["min"], field["max"] = table.signed(4), table.signed(4)
        field["step"] = struct.unpack("<d", table.bytes(8))[0]
    elif field["kind"] == 1:
        field["angle_bits"] = table.integer(1)
    elif field["kind"] == 2:
        field["type"] = TYPES[table.integer(1)]
    else:
        need(field["kind"] == 3, "no kind of field")
    return field


def write_field(field):
    out = bytes([len(field["name"])]) + field["name"] + bytes([field["kind"]])
    if field["kind"] == 0:
        out += struct.pack("<iid", field["min"], field["max"], field["step"])
    elif field["kind"] == 1:
        out += bytes([field["angle_bits"]])
    elif field["kind"] == 2:
        out += bytes([TYPES.index(field["type"])])
    return out


def value_bytes(field):
    bits = {0: lambda: (field["max"] - field["min"]).bit_length(), 1: lambda: field["angle_bits"],
            2: lambda: VALUE_BITS[field["type"]]}[field["kind"]]()
    return (bits + 7) // 8


class Table:
    def __init__(self, data):
        table = Input(data)
        self.version, self.tick_hz = table.integer(4), table.integer(2)
        self.dictionary_hash, self.custom_hash = table.integer(8), table.integer(8)
        self.components = []
        for _ in range(table.varint()):
            name, opaque = table.name(), table.varint()
            self.components.append((name, opaque, [] if opaque else [read_field(table) for _ in range(table.integer(1))]))
        self.spatial = table.integer(1)
        self.axes, self.velocities = None, None
        if self.spatial:
            self.axes = (table.varint(), table.integer(1), table.integer(1))
            if table.integer(1):
                self.velocities = (table.varint(), table.varint())
        self.messages = []
        for _ in range(table.varint()):
            name, flags, bytes_max = table.name(), table.integer(1), table.varint()
            fields = [read_field(table) for _ in range(table.integer(1))]
            absent = []
            if flags & 8:
                absent = [table.integer(table.varint()) for field in fields if field["kind"] != 3]
            self.messages.append((name, flags, bytes_max, fields, absent))
        need(table.at == len(data), "something behind the table")

    def write(self):
        out = struct.pack("<IHQQ", self.version, self.tick_hz, self.dictionary_hash, self.custom_hash)
        out += write_varint(len(self.components))
        for name, opaque, fields in self.components:
            out += bytes([len(name)]) + name + write_varint(opaque)
            if not opaque:
                out += bytes([len(fields)]) + b"".join(map(write_field, fields))
        out += bytes([self.spatial])
        if self.spatial:
            out += write_varint(self.axes[0]) + bytes(self.axes[1:]) + bytes([self.velocities is not None])
            out += b"".join(map(write_varint, self.velocities or ()))
        out += write_varint(len(self.messages))
        for name, flags, bytes_max, fields, absent in self.messages:
            out += bytes([len(name)]) + name + bytes([flags]) + write_varint(bytes_max) + bytes([len(fields)])
            out += b"".join(map(write_field, fields))
            for field, code in zip([field for field in fields if field["kind"] != 3], absent):
                out += write_varint(value_bytes(field)) + code.to_bytes(value_bytes(field), "little")
        return out

    def columns(self):
        """(bytes, kind, minimum and maximum or None, angle bits, axis, velocity column, factor) of each."""
        out = []
        for index, (_, _, fields) in enumerate(self.components):
            for number, field in enumerate(fields):
                axis = self.axes[1:].index(number) if self.axes and self.axes[0] == index and number in self.axes[1:] else -1
                bounds = None
                if field["kind"] == 0:
                    size = 2 if field["min"] >= -32768 and field["max"] <= 32767 else 4
                    if axis >= 0:
                        size = 2 * self.spatial
                    else:
                        bounds = (field["min"], field["max"])
                else:
                    size = {1: lambda: 2, 2: lambda: INTEGER_BYTES[field["type"]], 3: lambda: 8}[field["kind"]]()
                out.append([size, field["kind"], bounds, field.get("angle_bits", 0), axis, -1, 0, field.get("step", 0)])
        for column in out:
            if column[4] >= 0 and self.velocities:
                column[5] = self.velocities[column[4]]
                column[6] = round(out[column[5]][7] / self.tick_hz / column[7] * 65536)
        return [tuple(column[:7]) for column in out]


DIFFS = 1 << 17  # beside the largest opaque size
KINDS = ("range", "angle", "integer", "reference")


def described(header):
    """The same, of the protocol that the golden file names."""
    return [(c["bytes"], KINDS.index(c["kind"]), (c["min"], c["max"]) if c["kind"] == "range" and c["spatial_axis"] < 0 else None,
             c["angle_bits"], c["spatial_axis"], c["velocity_column"], c["velocity_factor"])
            for component in header["components"] for c in component["columns"]]


def own_field(own, theirs, index):
    """The one of `own` that stands for field `index` of `theirs`, or None."""
    name = theirs[index]["name"]
    named = [field for field in own if field["name"] == name]
    if name and named:
        return named[0]
    if index >= len(own) or (name and own[index]["name"]):
        return None
    return None if own[index]["name"] in [field["name"] for field in theirs if field["name"]] else own[index]


def what_differs(told, own):
    """What a client of the protocol `own` cannot read of a server that tells the table `told`, in words; None: it can."""
    theirs, own = Table(told), Table(own)
    for name in ("version", "tick_hz"):
        there, here = getattr(theirs, name), getattr(own, name)
        if there != here:
            return "%s: %u there, %u here" % (name.replace("version", "wire format version"), there, here)
    if theirs.dictionary_hash != own.dictionary_hash:
        return "dictionary: another one"
    if theirs.custom_hash != own.custom_hash:
        return "custom data: other"

    def differing_field(kind, name, fields, own_fields):
        for index, field in enumerate(fields):
            known = own_field(own_fields, fields, index)
            if known and (known["kind"] != field["kind"] or known.get("type") != field.get("type")):
                shown = known["name"].decode() or str(index)
                return '%s "%s", field "%s": another kind or type' % (kind, name.decode(), shown)
        return None

    for name, opaque, fields in theirs.components:
        for _, own_opaque, own_fields in [component for component in own.components if component[0] == name]:
            if (opaque > 0) != (own_opaque > 0):
                return 'component "%s": opaque on one side only' % name.decode()
            if opaque >= DIFFS > own_opaque:
                return 'component "%s": without diffs here' % name.decode()
            if (what := differing_field("component", name, fields, own_fields)):
                return what
    for name, flags, _, fields, _ in theirs.messages:
        for _, own_flags, _, own_fields, _ in [message for message in own.messages if message[0] == name]:
            if flags != own_flags:
                return 'message "%s": another channel, route, option or rest' % name.decode()
            if (what := differing_field("message", name, fields, own_fields)):
                return what
    return None


def check_table(header, data):
    table = Table(data)
    need(table.write() == data, "re-encoded table differs")
    need(table.columns() == described(header), "the table has other columns than the file's protocol")
    need([opaque for _, opaque, _ in table.components] == [c.get("opaque_bytes_max", 0) + (DIFFS if "diffs" in c else 0)
                                                           for c in header["components"]],
         "the table has other opaque components than the file's protocol")
    messages = [(name.decode(), bool(flags & 32), bool(flags & 64), bytes_max, sum(f["kind"] == 3 for f in fields),
                 [KINDS[f["kind"]] for f in fields if f["kind"] != 3]) for name, flags, bytes_max, fields, _ in table.messages]
    need(messages == [(m["name"], m["waits_for_tick"], m["rest"], m["bytes_max"], m["references"], [f["kind"] for f in m["fields"]])
                      for m in header.get("messages", [])], "the table has other messages than the file's protocol")
