"""Bodies of requests that are files: kept on disk, and read in pieces."""

import hashlib
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

# A larger file is on disk.
_IN_MEMORY = 256 * 1024


class Upload:
    """A file that a client sends, of bounded memory whatever its size."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  (closed by `close`)
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
        """The content from its beginning, in blocks of one size, all but the last."""
        self._file.seek(0)
        while block := self._file.read(size):
            yield block

    def close(self) -> None:
        """Give up the file."""
        self._file.close()
