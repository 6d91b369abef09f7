"""windrow and its peers, measured side by side: same machine, same servers, same run, same durability, in turns.

Every contender has a fresh outbox in the layout that it is made for, relays to a fresh topic, and is judged by the same
consumer. Peers that no registry has (goharvest, tomorrow-one's library is one of Spring's) are written here after their
own sources: what costs them time, statement by statement, without election and without error handling, which would
only cost them more. windrow is there twice: exactly once, as it is by default; and at least once, as the peers are.
"""
