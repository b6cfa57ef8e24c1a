"""Loading modules and the API, which takes a second and must not be interrupted by signals."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def loading() -> Iterator[None]:
    """Delay the signals that end the program until the end of the block.

    Their handlers raise an exception, which Python may swallow while it compiles a module: then the program would not
    end. The garbage collector is disabled, too: it would search the many lasting objects that loading creates, and so
    loading takes a third less time.
    """
    received_signals: list[int] = []

    def receive(number: int, _: FrameType | None) -> None:
        received_signals.append(number)

    handlers = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for received_number in received_signals:
        signal.raise_signal(received_number)
