"""Bodies of requests that are files: kept on disk, and read in blocks."""

import hashlib
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

# The maximum size in bytes of a file that is kept in memory.
_MAX_IN_MEMORY = 256 * 1024


class Upload:
    """A file that a client sends; it uses a bounded amount of memory for any size."""

    def __init__(self) -> None:
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
        """Add content at the end."""
        self._file.write(content)
        self._digest.update(content)
        self._size += len(content)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content from its beginning, in blocks of `size` bytes; the last block may be smaller."""
        self._file.seek(0)
        while block := self._file.read(size):
            yield block

    def close(self) -> None:
        """Close the file, which removes it from the disk."""
        self._file.close()
