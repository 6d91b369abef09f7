"""The fault lab: servers, relays and writers at work, faults by a seeded schedule, a verdict by pure checkers."""
