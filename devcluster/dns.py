"""One question to a name server, to see whether it answers."""

from __future__ import annotations

import secrets
import socket
import struct

HEADER = struct.Struct(">HHHHHH")
RECURSION_DESIRED = 0x0100
RESPONSE, CODE_MASK = 0x8000, 0x000F
TYPE_A, CLASS_IN = 1, 1
PORT = 53
MAX_DATAGRAM = 4096


def problem(server: str, name: str, timeout: float = 1.0) -> str | None:
    """Return why the server does not tell the address of a name, or None if it does."""
    number = secrets.randbelow(1 << 16)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(timeout)
        try:
            client.connect((server, PORT))
            client.send(question(number, name))
            reply = client.recv(MAX_DATAGRAM)
        except OSError as error:
            return f"{server} does not answer ({error})"
    return None if has_address(reply, number) else f"{server} does not know {name}"


def question(number: int, name: str) -> bytes:
    """Return the datagram that asks for the address of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.rstrip(".").split("."))
    header = HEADER.pack(number, RECURSION_DESIRED, 1, 0, 0, 0)
    return header + labels + b"\0" + struct.pack(">HH", TYPE_A, CLASS_IN)


def has_address(reply: bytes, number: int) -> bool:
    """Tell whether a datagram is the answer to question `number` and holds an answer record."""
    if len(reply) < HEADER.size:
        return False
    answered, flags, _, answers, _, _ = HEADER.unpack_from(reply)
    return answered == number and bool(flags & RESPONSE) and not flags & CODE_MASK and answers > 0
