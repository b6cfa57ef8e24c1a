"""Loading modules and the API, which takes a second and must not be disturbed."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def loading() -> Iterator[None]:
    """Let the signals that end the program wait until the block has loaded what it loads.

    Their handlers raise an exception, which Python may swallow while it compiles a module: then the program would run
    on. The garbage collector waits too, as many objects are made that stay: that takes a third off the time.
    """
    received: list[int] = []

    def receive(number: int, _: FrameType | None) -> None:
        received.append(number)

    handlers = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for waiting in received:
        signal.raise_signal(waiting)
