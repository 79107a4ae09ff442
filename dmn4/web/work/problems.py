"""What a worker can say instead of an answer."""


class TooLarge(Exception):
    """What was sent is beyond a limit: status 413."""


class Gone(Exception):
    """What was asked for is not there: status 404."""


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that the limit on memory was met."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))
