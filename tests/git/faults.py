"""What a git server may do to its clients. A fault of HTTP is a function of the handler and of the reply that git would give; it returns true if it
has answered. A fault of a stream is a function of the server and the connection."""
import os
import struct
import zlib

MIB = 1 << 20
REFS = {"Content-Type": "application/x-git-upload-pack-advertisement"}
PACK = {"Content-Type": "application/x-git-upload-pack-result"}
SERVICE = b"001e# service=git-upload-pack\n0000"


def packet(data):
    """A line of git's protocol."""
    return b"%04x%s" % (len(data) + 4, data)


def band(data):
    """Bytes of a pack among the lines."""
    return b"".join(packet(b"\1" + data[i:i + 65000]) for i in range(0, len(data), 65000))


# ---- where ------------------------------------------------------------------------------------------------------------------------------

def at_refs(fault):
    """Only where the branches are asked for."""
    return lambda handler, git: handler.stage == "refs" and fault(handler, git)


def at_pack(fault):
    """Only where objects are asked for."""
    return lambda handler, git: handler.stage == "pack" and fault(handler, git)


# ---- HTTP -------------------------------------------------------------------------------------------------------------------------------

def hang(handler, _):
    """No byte of a reply."""
    handler.owner.hang(handler.connection)
    handler.close_connection = True
    return True


def hang_in_the_middle(handler, git):
    """Half of the reply that git gives."""
    status, headers, body = git()
    handler.begin(status, headers, len(body))
    handler.send(body[:len(body) // 2])
    handler.wfile.flush()
    return hang(handler, git)


def cut(handler, git):
    """Half of the reply, and the end of the connection."""
    status, headers, body = git()
    handler.begin(status, headers, len(body))
    handler.send(body[:len(body) // 2])
    handler.close_connection = True
    return True


def status(code, headers=None, body=b"no\n"):
    def fault(handler, _):
        handler.reply(code, {"Content-Type": "text/plain", **(headers or {})}, body)
        return True
    return fault


def redirect(to):
    """`to`: an address, or a function of the server and the path that gives one."""
    def fault(handler, _):
        handler.reply(302, {"Location": to(handler.owner, handler.path) if callable(to) else to})
        return True
    return fault


def moved(handler, _):
    """/old/NAME.git is at /NAME.git."""
    if not handler.path.startswith("/old/"):
        return False
    handler.reply(301, {"Location": handler.owner.url(handler.path.removeprefix("/old/"))})
    return True


def page(handler, _):
    """What a proxy or a login page answers."""
    handler.reply(200, {"Content-Type": "text/html; charset=utf-8"}, b"<!DOCTYPE html>\n<html><body>Please log in</body></html>\n")
    return True


def garbage_refs(handler, _):
    handler.reply(200, REFS, SERVICE + os.urandom(5000))
    return True


def endless_refs(handler, _, size=1 << 30):
    """1 GiB of branches."""
    handler.begin(200, REFS)
    handler.send(SERVICE + packet(b"1" * 40 + b" HEAD\0side-band-64k ofs-delta symref=HEAD:refs/heads/main\n"))
    lines = b"".join(packet(b"%040x refs/heads/branch-%d\n" % (i + 1, i)) for i in range(20000))
    for _ in range(size // len(lines) + 1):
        handler.send(lines)
    handler.send(b"0000")
    return True


def garbage_pack(handler, _):
    handler.reply(200, PACK, packet(b"NAK\n") + band(os.urandom(200_000)) + b"0000")
    return True


NOISE = os.urandom(MIB)


def blob(size):
    """An object of a pack, unlike all others, whose bytes are not compressed."""
    head, left = bytearray([0x30 | size & 15]), size >> 4
    while left:
        head[-1] |= 0x80
        head.append(left & 127)
        left >>= 7
    return bytes(head) + zlib.compress(os.urandom(16) + NOISE[16:size], 0)


def endless_pack(handler, _):
    """A pack of a million objects, each of 1 MiB, as long as it is taken."""
    handler.begin(200, PACK)
    handler.send(packet(b"NAK\n") + band(b"PACK" + struct.pack(">II", 2, 1_000_000)))
    while not handler.owner.over.is_set():
        handler.send(band(blob(MIB)))
    return True


def drip(handler, _):
    """The same of small objects, a few a second: never silent, and never at an end."""
    handler.begin(200, PACK)
    handler.send(packet(b"NAK\n") + band(b"PACK" + struct.pack(">II", 2, 1_000_000)))
    while not handler.owner.over.wait(0.3):
        handler.send(band(blob(100)))
    return True


def many_objects(handler, _):
    """A pack that says it has 4 billion objects, and ends."""
    handler.reply(200, PACK, packet(b"NAK\n") + band(b"PACK" + struct.pack(">II", 2, 0xFFFFFFFF) + blob(100)) + b"0000")
    return True


def bomb_pack(handler, _):
    """One object that says it has 64 GiB and is a stream of zeros."""
    head, left = bytearray([0xB0]), (64 << 30) >> 4
    while left:
        head.append(left & 127 | (0x80 if left > 127 else 0))
        left >>= 7
    press = zlib.compressobj(9)
    handler.begin(200, PACK)
    handler.send(packet(b"NAK\n") + band(b"PACK" + struct.pack(">II", 2, 1) + bytes(head)))
    zeros = bytes(16 * MIB)
    for _ in range((64 << 30) // len(zeros)):
        handler.send(band(press.compress(zeros)))
        if handler.owner.over.is_set():
            break
    return True


# ---- streams: git daemon and sshd -------------------------------------------------------------------------------------------------------

def silent(server, connection):
    """Takes the connection and says nothing."""
    server.hang(connection)


def noise(_, connection):
    """Bytes of no protocol."""
    connection.sendall(os.urandom(5000))
