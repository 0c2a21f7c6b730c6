"""Arrays in the file formats of the image data sets, with the same bytes on any machine.

Nothing is compressed, since compressed bytes differ between builds of zlib, and nothing is dated.
"""

import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO

import numpy as np
from scipy.io import savemat


def idx(array: np.ndarray) -> bytes:
    """The idx format of bytes: magic number, lengths of the axes, values."""
    header = struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def stored_gzip(content: bytes) -> bytes:
    """A gzip file of stored blocks, without name or time: compressed bytes differ between builds of zlib."""
    packed = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    for start in range(0, len(content), 0xFFFF):
        block = content[start : start + 0xFFFF]
        last = start + len(block) == len(content)
        packed += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    return packed + struct.pack("<II", zlib.crc32(content), len(content))


def mat(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A MATLAB 5 file of X and y, not compressed; its text of 116 bytes says neither machine nor date."""
    file = BytesIO()
    savemat(file, {"X": images, "y": labels})
    return b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz of arrays of any number of axes, neither compressed nor dated."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980
            info.create_system = 3
            archive.writestr(info, member.getvalue())
    return file.getvalue()


def pickled(value: object) -> bytes:
    """A dictionary as Python 2 pickled it (protocol 2, NumPy 1), without the memo, which nothing here refers to."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: object) -> bytes:
    match value:
        case str():
            return b"U" + bytes([len(value)]) + value.encode("ascii")
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"](" + b"".join(map(_opcodes, value)) + b"e"
        case dict():
            items = b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items())
            return b"}(" + items + b"u"
        case np.ndarray():  # (n, d) bytes
            empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + _opcodes(-1) * 2 + b"K\x00tb"
            shape = b"".join(map(_opcodes, value.shape)) + b"\x86"
            data = b"T" + struct.pack("<i", value.size) + value.tobytes()
            return empty + b"(K\x01" + shape + kind + b"\x89" + data + b"tb"
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a batch")
