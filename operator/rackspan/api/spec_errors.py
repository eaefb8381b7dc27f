"""The error of an object that cannot be read."""


class SpecError(ValueError):
    """An object cannot be read: a field is missing, or is not what the custom resource says.

    The API server refuses such objects, so this is met only where a schema was looser when the object was stored, or
    where the object comes from a file. `path` is the field, such as `spec.placement.spread[0].level`.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.path = path
        self.message = message
