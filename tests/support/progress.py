"""A recorder for the progress of a scan."""


class Steps:
    """Records the progress reports of a scan: its steps, and how many of all slices are done."""

    def __init__(self):
        self.described = []
        self.advanced = []

    def describe(self, description):
        self.described.append(description)

    def advance(self, done, total):
        self.advanced.append((done, total))
