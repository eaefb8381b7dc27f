"""The progress of a scan, as a test sees it."""


class Steps:
    """Keeps what a scan says: what it does, and how many slices of how many are done."""

    def __init__(self):
        self.described = []
        self.advanced = []

    def describe(self, description):
        self.described.append(description)

    def advance(self, done, total):
        self.advanced.append((done, total))
