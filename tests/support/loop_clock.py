"""The clock of the running event loop, which tests set forward instead of waiting."""

import asyncio


def pass_time(monkeypatch, seconds):
    """Let time pass on the event loop's clock."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda earlier=loop.time: earlier() + seconds)
