"""Packs, chunk lists and tree nodes, byte for byte as docs/format.md says: what an attacker makes without our client."""
import ctypes
import hashlib
import os
import struct

from daemon_kit import varint

CHUNK, NODE, LIST, BLOB = 1, 2, 3, 5
zstd = ctypes.CDLL("libzstd.so.1")
xxhash = ctypes.CDLL("libxxhash.so.0")
zstd.ZSTD_compress.restype = ctypes.c_size_t
zstd.ZSTD_compress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
xxhash.XXH64.restype = ctypes.c_uint64
xxhash.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def sha(data):
    return hashlib.sha256(data).digest()


def compress(data):
    out = ctypes.create_string_buffer(len(data) + 1024)
    n = zstd.ZSTD_compress(out, len(out), data, len(data), 1)
    return out.raw[:n]


def pack(project, records):
    """`records`: (kind, raw bytes). The pack's id in hex, and its bytes."""
    nonce, name = os.urandom(16), project.encode()
    body, entries = bytearray(80), []
    for kind, raw in records:
        stored = compress(raw)
        codec = int(len(stored) < len(raw))
        stored = stored if codec else raw
        entries.append((sha(raw), len(body), len(stored), len(raw), codec, kind))
        body += struct.pack("<BBII", kind, codec, len(raw), len(stored)) + stored
    kinds = {kind == CHUNK for *_, kind in entries}
    head = b"PLPK\x01\x01\x01" + bytes([3 if len(kinds) == 2 else 1 if True in kinds else 2]) + nonce + bytes([len(name)]) + name.ljust(51, b"\0") + bytes(4)
    body[:80] = head
    order = sorted(range(len(entries)), key=lambda i: entries[i][0])
    rank = {i: at for at, i in enumerate(order)}
    footer = b"PLPF" + struct.pack("<IQ", len(entries), xxhash.XXH64(bytes(body), len(body), 0)) + head
    for i in order:
        digest, offset, stored, raw, codec, kind = entries[i]
        footer += digest + struct.pack("<IIIBBH", offset, stored, raw, codec, kind, 0)
    footer += b"".join(struct.pack("<I", rank[i]) for i in range(len(entries)))
    trailer = b"PLPT" + struct.pack("<IQ", len(entries), len(body)) + sha(footer)
    return sha(footer + nonce).hex(), bytes(body) + footer + trailer


def chunk_list(level, entries):
    """`entries`: (id, bytes)."""
    width = 3 if level == 0 else 8
    return b"PLCL\x01" + bytes([level]) + varint(len(entries)) + b"".join(i + n.to_bytes(width, "little") for i, n in entries)


def tree_node(level, entries):
    """`entries`: (key, value) in order of the keys, without front coding that would save room."""
    out = b"PLTN\x01\x01" + bytes([level]) + struct.pack("<I", len(entries))
    before = b""
    for key, value in entries:
        shared = len(os.path.commonprefix([before, key]))
        out += varint(shared) + varint(len(key) - shared) + key[shared:] + value
        before = key
    return out


def put_list_op(path, size, root):
    """An ops stream that puts one file, whose content is a chunk list."""
    name = path.encode()
    return b"PLOP\x01\x01" + varint(len(name)) + name + bytes([1, 3]) + varint(size) + root + b"\0" + varint(1)
