"""Hypothesis on a machine that others use as well: only the test's own timeout limits an example."""

import hypothesis

hypothesis.settings.register_profile("windrow", deadline=None)
hypothesis.settings.load_profile("windrow")
