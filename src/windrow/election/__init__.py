"""Election: who of several relays of one name publishes."""
