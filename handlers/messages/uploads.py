"""Bodies of requests that are files: kept on disk, and read in blocks."""

import errno
import hashlib
import os
from collections.abc import Iterator
from shutil import disk_usage
from tempfile import SpooledTemporaryFile, gettempdir

# The maximum size in bytes of a file that is kept in memory.
_MAX_IN_MEMORY = 256 * 1024


class Upload:
    """A file that a client sends; it uses a bounded amount of memory for any size.

    It leaves `min_free_bytes` of the disk to others.
    """

    def __init__(self, min_free_bytes: int = 0) -> None:
        self._min_free_bytes = min_free_bytes
        self._file = SpooledTemporaryFile(_MAX_IN_MEMORY)  # noqa: SIM115  (closed by `close`)
        self._digest = hashlib.sha256()
        self._size = 0

    def __len__(self) -> int:
        """The number of bytes."""
        return self._size

    @property
    def sha256(self) -> str:
        """The SHA-256 hash of the content, in hexadecimal digits."""
        return self._digest.hexdigest()

    def append(self, content: bytes) -> None:
        """Add content at the end; raises OSError if the disk has no space left for it."""
        self._refuse_full_disk(len(content))
        self._file.write(content)
        self._digest.update(content)
        self._size += len(content)

    def _refuse_full_disk(self, size: int) -> None:
        """Raise OSError if the disk would have less than `min_free_bytes` after `size` further bytes."""
        if not self._min_free_bytes or self._size + size <= _MAX_IN_MEMORY:
            return
        if disk_usage(gettempdir()).free < self._min_free_bytes + size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content from its beginning, in blocks of `size` bytes; the last block may be smaller."""
        self._file.seek(0)
        while block := self._file.read(size):
            yield block

    def close(self) -> None:
        """Close the file, which removes it from the disk."""
        self._file.close()
