"""XXH3, seed 0: 64 bits of up to 240 bytes, what state hashes are made of; 128 bits of more than that, what the hash of a protocol is
made of (docs/wire.md). Written from the algorithm's specification,
xxHash's doc/xxhash_spec.md; the secret is the one that it defines."""

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
BYTES_MAX = 240
MASK = (1 << 64) - 1
PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
MIX1, MIX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def read(data, at, size):
    return int.from_bytes(data[at : at + size], "little")


def rotate(value, count):
    return (value << count | value >> (64 - count)) & MASK


def fold(a, b):
    product = a * b
    return (product & MASK) ^ (product >> 64)


def avalanche(h):
    h = ((h ^ h >> 37) * MIX1) & MASK
    return h ^ h >> 32


def avalanche64(h):
    h = ((h ^ h >> 33) * PRIME64[1]) & MASK
    h = ((h ^ h >> 29) * PRIME64[2]) & MASK
    return h ^ h >> 32


def mix16(data, at, secret):
    return fold(read(data, at, 8) ^ read(SECRET, secret, 8), read(data, at + 8, 8) ^ read(SECRET, secret + 8, 8))


def short(data):
    n = len(data)
    if n == 0:
        return avalanche64(read(SECRET, 56, 8) ^ read(SECRET, 64, 8))
    if n < 4:
        word = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche64(word ^ read(SECRET, 0, 4) ^ read(SECRET, 4, 4))
    if n <= 8:
        h = (read(data, n - 4, 4) + (read(data, 0, 4) << 32)) ^ read(SECRET, 8, 8) ^ read(SECRET, 16, 8)
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = (h * MIX2) & MASK
        h ^= (h >> 35) + n
        h = (h * MIX2) & MASK
        return h ^ h >> 28
    low = read(data, 0, 8) ^ read(SECRET, 24, 8) ^ read(SECRET, 32, 8)
    high = read(data, n - 8, 8) ^ read(SECRET, 40, 8) ^ read(SECRET, 48, 8)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return avalanche((n + swapped + high + fold(low, high)) & MASK)


def xxh3(data):
    n = len(data)
    if n <= 16:
        return short(data)
    h = n * PRIME64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & MASK)
    if n > BYTES_MAX:
        raise ValueError("more than %d bytes" % BYTES_MAX)
    for i in range(8):
        h += mix16(data, 16 * i, 16 * i)
    h = avalanche(h & MASK)
    for i in range(8, n // 16):
        h += mix16(data, 16 * i, 16 * (i - 8) + 3)
    h += mix16(data, n - 16, 136 - 17)
    return avalanche(h & MASK)


def accumulate(lanes, stripe, secret):
    for i in range(8):
        value = read(stripe, 8 * i, 8)
        key = value ^ read(SECRET, secret + 8 * i, 8)
        lanes[i ^ 1] = (lanes[i ^ 1] + value) & MASK
        lanes[i] = (lanes[i] + (key & 0xFFFFFFFF) * (key >> 32)) & MASK


def merge(lanes, secret, start):
    for i in range(4):
        start += fold(lanes[2 * i] ^ read(SECRET, secret + 16 * i, 8), lanes[2 * i + 1] ^ read(SECRET, secret + 16 * i + 8, 8))
    return avalanche(start & MASK)


def xxh3_128(data):
    """(low, high)"""
    n = len(data)
    if n <= BYTES_MAX:
        raise ValueError("not more than %d bytes" % BYTES_MAX)
    lanes = [PRIME32[2], *PRIME64[:4], PRIME32[1], PRIME64[4], PRIME32[0]]
    stripes = (len(SECRET) - 64) // 8
    for i in range((n - 1) // 64):
        accumulate(lanes, data[64 * i : 64 * i + 64], 8 * (i % stripes))
        if i % stripes == stripes - 1:
            for lane in range(8):
                mixed = lanes[lane] ^ lanes[lane] >> 47 ^ read(SECRET, len(SECRET) - 64 + 8 * lane, 8)
                lanes[lane] = (mixed * PRIME32[0]) & MASK
    accumulate(lanes, data[n - 64 :], len(SECRET) - 71)
    return merge(lanes, 11, n * PRIME64[0]), merge(lanes, len(SECRET) - 75, ~(n * PRIME64[1]) & MASK)
