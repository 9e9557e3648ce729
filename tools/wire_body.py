"""Section bodies of docs/wire.md, read to the last bit and written again: the part of tools/wire_check.py below messages. Written from
that document alone."""
import subprocess

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
RAW_BYTES_MAX = 131072
INTEGER_BOUNDS = {"boolean": (0, 1)}
for _bits in (8, 16, 32, 64):
    INTEGER_BOUNDS["int%d" % _bits] = (-(1 << _bits - 1), (1 << _bits - 1) - 1)
    INTEGER_BOUNDS["uint%d" % _bits] = (0, (1 << _bits) - 1)


class Bad(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Bad(what)


# ---- bits and bytes ----
class Reader:
    def __init__(self, data):
        self.value = int.from_bytes(data, "little")
        self.size = 8 * len(data)
        self.at = 0

    def bits(self, count):
        need(self.at + count <= self.size, "bit stream too short")
        value = (self.value >> self.at) & ((1 << count) - 1)
        self.at += count
        return value

    def align(self):
        need(self.bits(-self.at % 8) == 0, "pad bits are not zero")

    def number(self, length_bits):
        length = self.bits(length_bits)
        value = self.bits(length)
        need(value.bit_length() == length, "number with a superfluous bit")
        return value

    def bytes(self, count):
        need(self.at % 8 == 0, "not aligned")
        return self.bits(8 * count).to_bytes(count, "little")


class Writer:
    def __init__(self):
        self.value = 0
        self.at = 0

    def bits(self, value, count):
        assert 0 <= value < (1 << count), (value, count)
        self.value |= value << self.at
        self.at += count

    def align(self):
        self.at += -self.at % 8

    def number(self, value, length_bits):
        self.bits(value.bit_length(), length_bits)
        self.bits(value, value.bit_length())

    def bytes(self, data):
        self.bits(int.from_bytes(data, "little"), 8 * len(data))

    def finish(self):
        self.align()
        return self.value.to_bytes(self.at // 8, "little")


def read_varint(data, at):
    value = 0
    for i in range(5):
        need(at < len(data), "varint too short")
        byte = data[at]
        at += 1
        need(i == 0 or byte != 0, "varint with a superfluous byte")
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            need(value < 1 << 32, "varint over 32 bits")
            return value, at
    raise Bad("varint too long")


def write_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def zigzag(value, bits):
    value = signed(value, bits)
    return ((value << 1) ^ (value >> (bits - 1))) & ((1 << bits) - 1)


def unzigzag(code):
    return (code >> 1) ^ -(code & 1)


def rounded(width):
    return (width + 7) // 8 * 8


# ---- the parts of a body ----
def rice_parameter(lanes):
    return (11 * (lanes[-1] + 1 - len(lanes)) // (16 * len(lanes))).bit_length()


def write_mask(w, lanes):
    k = rice_parameter(lanes)
    gaps = [lane - before - 1 for before, lane in zip([-1] + lanes, lanes)]
    if 10 + sum((gap >> k) + 1 + k for gap in gaps) <= 64:
        w.bits(1, 1)
        w.bits(len(lanes) - 1, 6)
        w.bits(k, 3)
        for gap in gaps:
            w.bits((1 << (gap >> k)) - 1, (gap >> k) + 1)
            w.bits(gap & ((1 << k) - 1), k)
    else:
        w.bits(0, 1)
        w.bits(sum(1 << lane for lane in lanes), 64)


def read_mask(r):
    if r.bits(1) == 0:
        mask = r.bits(64)
        need(mask != 0, "empty lane mask")
        return [lane for lane in range(64) if mask >> lane & 1]
    count, k = r.bits(6) + 1, r.bits(3)
    lanes, lane = [], -1
    for _ in range(count):
        gap = 0
        while r.bits(1):
            gap += 1
        lane += (gap << k) + r.bits(k) + 1
        lanes.append(lane)
    need(lane < 64, "lane beyond 63")
    return lanes


class Noise:
    """The bytes beside a zstd frame: read from what is given, or collected."""

    def __init__(self, data=b""):
        self.data, self.at = bytearray(data), 0

    def take(self, count):
        need(self.at + count <= len(self.data), "too few noise bytes")
        self.at += count
        return self.data[self.at - count : self.at]


def read_planes(r, noise, count, width):
    codes = [0] * count
    if width == 0:
        return codes
    shift = 0
    if width > 8:
        codes, shift = list(noise.take(count)), 8
    r.align()
    while shift < width:
        for i in range(count):
            codes[i] |= r.bits(8) << shift
        shift += 8
    return codes


def write_planes(w, noise, codes, width):
    if width == 0:
        return
    shift = 0
    if width > 8:
        noise.data += bytes(code & 0xFF for code in codes)
        shift = 8
    w.align()
    while shift < width:
        for code in codes:
            w.bits(code >> shift & 0xFF, 8)
        shift += 8


def read_flags(r, lanes):
    return [lane for lane in lanes if r.bits(1)]


def write_flags(w, lanes, chosen):
    for lane in lanes:
        w.bits(lane in chosen, 1)


class Column:
    def __init__(self, description, component, field):
        self.component, self.field = component, field
        self.bits = 8 * description["bytes"]
        self.width_bits = {16: 5, 32: 6, 64: 7}[self.bits]
        self.angle_bits = description.get("angle_bits", 0)
        self.wrap = self.angle_bits or self.bits
        self.velocity = description.get("velocity_column", -1)
        self.factor = description.get("velocity_factor", 0)
        self.low, self.high = -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        kind = description["kind"]
        self.reference = kind == "reference"
        if kind == "range" and description.get("spatial_axis", -1) < 0:
            self.low, self.high = description["min"], description["max"]
        elif kind == "integer" and INTEGER_BOUNDS[description["type"]][1] <= self.high:
            self.low, self.high = INTEGER_BOUNDS[description["type"]]

    def value(self, number):
        """A number as the column holds it."""
        if self.angle_bits:
            number &= (1 << self.angle_bits) - 1
        return signed(number, self.bits)

    def code(self, value, prediction):
        return zigzag(signed(value - prediction, self.wrap), self.bits)


class Protocol:
    def __init__(self, header):
        self.header = header
        self.cell_steps = header["cell_steps"]
        self.hashes = header.get("hashes", False)
        self.dictionary = bytes.fromhex(header["dictionary"])
        self.columns, self.components = [], []
        self.diffs = [component.get("diffs") for component in header["components"]]
        for index, component in enumerate(header["components"]):
            columns = []
            for field, description in enumerate(component["columns"]):
                columns.append(Column(description, index, field))
            self.components.append((component.get("opaque_bytes_max", 0), columns))
            self.columns += columns
        self.messages = header.get("messages", [])

    def expand(self, frame, size):
        need(len(frame) >= 5 and frame[0] == 0, "zstd frame with optional parts")
        head = int.from_bytes(frame[2:5], "little")
        need(head & 1, "zstd frame of several blocks")
        need(len(frame) == 5 + (1 if head >> 1 & 3 == 1 else head >> 3), "zstd frame with trailing bytes")
        raw = expand_zstd(ZSTD_MAGIC + frame, size, self.dictionary)
        need(len(raw) == size, "zstd frame of another size")
        return raw


def expand_zstd(frame, size, dictionary):
    try:
        import zstandard
    except ImportError:
        return expand_with_program(frame, dictionary)
    given = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    try:
        return zstandard.ZstdDecompressor(dict_data=given).decompress(frame, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Bad("zstd: %s" % error)


def expand_with_program(frame, dictionary):
    import tempfile
    with tempfile.NamedTemporaryFile() as file:
        file.write(dictionary)
        file.flush()
        command = ["zstd", "-d", "-q", "-c"] + (["-D", file.name] if dictionary else [])
        done = subprocess.run(command, input=frame, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    need(done.returncode == 0, "zstd: %s" % done.stderr.decode().strip())
    return done.stdout


class Has:
    """What a lane has of one component; data: the bytes of an opaque one, which no comparison looks at."""

    def __init__(self, counter, values):
        self.counter, self.values, self.data = counter, values, None

    def __eq__(self, other):
        return other is not None and (self.counter, self.values) == (other.counter, other.values)


class Section:
    """Decoded: lanes, net_ids (full), cell (full, or None), components: per component {lane: Has}, opaque: per component {lane: bytes},
    ops: per component {lane: [(age, op bytes)]} of the lanes whose opaque bytes are ops."""

    def __init__(self, full, age, wide, keeps):
        self.full, self.age, self.wide, self.keeps = full, age, wide, keeps
        self.cell, self.net_ids, self.components, self.opaque, self.ops = None, {}, [], [], []
        self.kept = []  # per component: lanes that lack it and keep what they have


def prediction_of(protocol, column, section, base, lane):
    """base: the component list of the lane at the baseline."""
    if section.full:
        return 0
    has = base[lane][column.component]
    value = has.values[column.field] if has else 0
    if column.velocity >= 0:
        source = protocol.columns[column.velocity]
        moving = base[lane][source.component]
        velocity = moving.values[source.field] if moving else 0
        value += signed(velocity * min(section.age, 31) * column.factor, 64) >> 16
    return value


def decode_wide_column(r, noise, column, section, present, prediction):
    """Values by lane."""
    bits = r.bits(column.width_bits)
    need(bits % 8 == 0 and bits <= rounded(column.wrap), "width not rounded, or too large")
    chosen, low = [], 0
    if bits or section.full:
        chosen = read_flags(r, present) if r.bits(1) else present
        need(chosen, "no code")
    if section.full:
        low = signed(unzigzag(r.number(column.width_bits)), column.bits)
    code = dict(zip(chosen, read_planes(r, noise, len(chosen), bits)))
    if section.full:
        values = {lane: low + code[lane] if lane in code else 0 for lane in present}
        need(all(column.value(value) == value for value in values.values()), "value not in its column")
        return values
    return {lane: column.value(prediction(lane) + unzigzag(code.get(lane, 0))) for lane in present}


def encode_wide_column(w, noise, column, section, values, codes):
    if section.full:
        codes = values
    some = [code for code in codes if code]

    def form(chosen):
        low = min(chosen, default=0) if section.full else 0
        return low, rounded(max((code - low for code in chosen), default=0).bit_length())

    low, bits = form(codes)
    low_some, bits_some = form(some)
    sparse = len(codes) + len(some) * bits_some < len(codes) * bits
    chosen = codes
    if sparse:
        chosen, low, bits = some, low_some, bits_some
    w.bits(bits, column.width_bits)
    if bits == 0 and not section.full:
        return
    w.bits(sparse, 1)
    if sparse:
        for code in codes:
            w.bits(code != 0, 1)
    if section.full:
        w.number(zigzag(low, column.bits), column.width_bits)
    write_planes(w, noise, [code - low for code in chosen], bits)


def read_ops(data, age):
    ops, at, more = [], 0, False
    while at < len(data) or more:
        if not more:
            before = age
            age, at = read_varint(data, at)
            need(age < before, "an op that is not after the one before, or not after the baseline")
        code, at = read_varint(data, at)
        need(code >> 1 <= len(data) - at, "op too short")
        ops.append((age, data[at : at + (code >> 1)]))
        at += code >> 1
        more = code & 1
    need(ops, "no op")
    return ops


def write_ops(ops):
    out = b""
    for i, (age, op) in enumerate(ops):
        if i == 0 or ops[i - 1][0] != age:
            out += write_varint(age)
        out += write_varint(len(op) << 1 | (i + 1 < len(ops) and ops[i + 1][0] == age)) + op
    return out


def decode_body(protocol, body, noise, section, base):
    r = Reader(body)

    def point():
        if section.wide:
            r.align()

    def width(bits, limit):
        value = r.bits(bits)
        need(value <= (rounded(limit) if section.wide else limit), "width too large")
        need(not section.wide or value == rounded(value), "width not rounded")
        return value

    section.lanes = lanes = read_mask(r)
    if section.full:
        if r.bits(1):
            section.cell = [unzigzag(r.number(6)) for _ in range(2)]
            for coordinate in section.cell:
                need(-(1 << 31) <= coordinate * protocol.cell_steps < 1 << 31 and protocol.cell_steps, "cell out of range")
        ascending = section.wide and r.bits(1)
        smallest = r.number(6)
        bits = width(6, 32)
        if section.wide:
            need(not ascending or len(lanes) > 1, "one lane cannot ascend")
            codes = read_planes(r, noise, len(lanes) - ascending, bits)
            index = [smallest + code for code in codes]
            if ascending:
                index = [smallest]
                for code in codes:
                    index.append(index[-1] + code + 1)
        else:
            index = [smallest + r.bits(bits) for _ in lanes]
        if r.bits(1):
            generation = [r.number(5)] * len(lanes)
        else:
            point()
            generation = [r.bits(24) for _ in lanes]
        shard = [0] * len(lanes)
        if r.bits(1):
            point()
            shard = [r.bits(8) for _ in lanes]
        for i, lane in enumerate(lanes):
            need(index[i] < 1 << 32 and generation[i] < 1 << 24, "net id out of range")
            section.net_ids[lane] = index[i] | generation[i] << 32 | shard[i] << 56
            need(section.net_ids[lane] != 0, "net id 0")
        if section.keeps:
            for _ in protocol.components:
                chosen = []
                if r.bits(1):
                    chosen = lanes if r.bits(1) else read_flags(r, lanes)
                    need(chosen, "kept by no lane")
                section.kept.append(chosen)
            need(any(section.kept), "nothing is kept")
    else:
        for lane in lanes:
            need(base.get(lane) is not None, "lane %d has no baseline" % lane)

    lengths = []
    for number, (opaque_max, columns) in enumerate(protocol.components):
        before = {} if section.full else {lane: base[lane][number] for lane in lanes if base[lane][number]}
        section.opaque.append({})
        section.ops.append({})
        lengths.append({})
        if not r.bits(1):
            section.components.append(before)
            continue
        structure = True
        if section.full:
            present = lanes if r.bits(1) else read_flags(r, lanes)
            need(not section.keeps or not set(present) & set(section.kept[number]), "a lane has what it keeps")
        else:
            structure = r.bits(1)
            present = read_flags(r, lanes) if structure else [lane for lane in lanes if lane in before]
        now = {lane: Has(before[lane].counter if lane in before else 0, [0] * len(columns)) for lane in present}
        section.components.append(now)
        if not present:
            continue
        if structure and r.bits(1):
            low, high = read_flags(r, present), read_flags(r, present)
            for lane in present:
                now[lane].counter = (lane in low) + 2 * (lane in high)
        if opaque_max:
            carried = present if section.full or r.bits(1) else read_flags(r, present)
            if carried:
                bits = r.bits(5)
                need(bits <= 17, "width too large")
                for lane in carried:
                    lengths[number][lane] = r.bits(bits)
                    if protocol.diffs[number] and not section.full and r.bits(1):
                        need(lane in before, "ops without anything before")
                        section.ops[number][lane] = None
                need(max(lengths[number].values()).bit_length() == bits, "length with a superfluous bit")
                need(max(lengths[number].values()) <= opaque_max, "opaque component too long")
            continue
        for column in columns:
            if section.full and r.bits(1):
                value = column.value(unzigzag(r.number(column.width_bits)))
                values = {lane: value for lane in present}
            elif section.wide:
                values = decode_wide_column(r, noise, column, section, present,
                                            lambda lane, c=column: prediction_of(protocol, c, section, base, lane))
            else:
                bits = width(column.width_bits, column.wrap)
                chosen = present
                if bits and r.bits(1):
                    chosen = read_flags(r, present)
                code = {lane: r.bits(bits) for lane in chosen}
                values = {}
                for lane in present:
                    prediction = prediction_of(protocol, column, section, base, lane)
                    values[lane] = column.value(prediction + unzigzag(code.get(lane, 0)))
            for lane, value in values.items():
                need(column.low <= value <= column.high, "value out of range")
                now[lane].values[column.field] = value
    r.align()
    for number, by_lane in enumerate(lengths):
        for lane, length in by_lane.items():
            section.opaque[number][lane] = r.bytes(length)
            if lane in section.ops[number]:
                section.ops[number][lane] = read_ops(section.opaque[number][lane], section.age)
                need(write_ops(section.ops[number][lane]) == section.opaque[number][lane], "re-encoded ops differ")
    need(r.at == r.size, "bytes behind the body")
    need(noise.at == len(noise.data), "too many noise bytes")


def encode_body(protocol, section, base):
    """Body and noise."""
    w, noise = Writer(), Noise()

    def point():
        if section.wide:
            w.align()

    def width(largest):
        return rounded(largest.bit_length()) if section.wide else largest.bit_length()

    lanes = section.lanes
    write_mask(w, lanes)
    if section.full:
        w.bits(section.cell is not None, 1)
        for coordinate in section.cell or []:
            w.number(zigzag(coordinate, 32), 6)
        ids = [section.net_ids[lane] for lane in lanes]
        index = [net_id & 0xFFFFFFFF for net_id in ids]
        generation = [net_id >> 32 & 0xFFFFFF for net_id in ids]
        shard = [net_id >> 56 for net_id in ids]
        codes = [value - min(index) for value in index]
        if section.wide:
            ascending = len(index) > 1 and all(a < b for a, b in zip(index, index[1:]))
            w.bits(ascending, 1)
            if ascending:
                codes = [b - a - 1 for a, b in zip(index, index[1:])]
        w.number(min(index), 6)
        bits = width(max(codes))
        w.bits(bits, 6)
        if section.wide:
            write_planes(w, noise, codes, bits)
        else:
            for code in codes:
                w.bits(code, bits)
        same = len(set(generation)) == 1
        w.bits(same, 1)
        if same:
            w.number(generation[0], 5)
        else:
            point()
            for value in generation:
                w.bits(value, 24)
        w.bits(any(shard), 1)
        if any(shard):
            point()
            for value in shard:
                w.bits(value, 8)
        for chosen in section.kept:
            w.bits(bool(chosen), 1)
            if chosen:
                w.bits(chosen == lanes, 1)
                if chosen != lanes:
                    write_flags(w, lanes, chosen)

    for number, (opaque_max, columns) in enumerate(protocol.components):
        now = section.components[number]
        before = {} if section.full else {lane: base[lane][number] for lane in lanes if base[lane][number]}
        opaque = section.opaque[number]
        if section.full:
            listed = bool(now)
        else:
            listed = bool(opaque) or set(now) != set(before) or any(now[lane] != before[lane] for lane in now)
        w.bits(listed, 1)
        if not listed:
            continue
        present = [lane for lane in lanes if lane in now]
        kept = {lane: before[lane].counter if lane in before else 0 for lane in present}
        counters = any(now[lane].counter != kept[lane] for lane in present)
        structure = section.full or set(now) != set(before) or counters
        if section.full:
            w.bits(present == lanes, 1)
            if present != lanes:
                write_flags(w, lanes, present)
        else:
            w.bits(structure, 1)
            if structure:
                write_flags(w, lanes, present)
        if not present:
            continue
        if structure:
            w.bits(counters, 1)
            if counters:
                write_flags(w, present, [lane for lane in present if now[lane].counter & 1])
                write_flags(w, present, [lane for lane in present if now[lane].counter & 2])
        if opaque_max:
            if not section.full:
                w.bits(len(opaque) == len(present), 1)
                if len(opaque) != len(present):
                    write_flags(w, present, opaque)
            if opaque:
                bits = max(len(text) for text in opaque.values()).bit_length()
                w.bits(bits, 5)
                for lane in present:
                    if lane in opaque:
                        w.bits(len(opaque[lane]), bits)
                        if protocol.diffs[number] and not section.full:
                            w.bits(lane in section.ops[number], 1)
            continue
        for column in columns:
            values = [now[lane].values[column.field] for lane in present]
            if section.full:
                equal = len(set(values)) == 1
                w.bits(equal, 1)
                if equal:
                    w.number(zigzag(signed(values[0], column.wrap), column.bits), column.width_bits)
                    continue
            codes = [column.code(value, prediction_of(protocol, column, section, base, lane)) for lane, value in zip(present, values)]
            if section.wide:
                encode_wide_column(w, noise, column, section, values, codes)
                continue
            bits = width(max(codes))
            w.bits(bits, column.width_bits)
            if bits == 0:
                continue
            chosen = [code for code in codes if code]
            sparse = len(codes) + len(chosen) * bits < len(codes) * bits
            w.bits(sparse, 1)
            if sparse:
                for code in codes:
                    w.bits(code != 0, 1)
            for code in chosen if sparse else codes:
                w.bits(code, bits)
    w.align()
    for opaque in section.opaque:
        for lane in lanes:
            if lane in opaque:
                w.bytes(opaque[lane])
    return w.finish(), bytes(noise.data)
