"""TLS in front of the embedded PostgreSQL, whose build has none: a proxy that lets nobody in without."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windrow.embedded.certificates import write_certificates
from windrow.embedded.ports import HOST

SSL_REQUEST = struct.pack(">ii", 8, 80_877_103)


class TlsProxy:
    """Listens on `port`; `refused` counts those who came without TLS."""

    def __init__(self, folder: Path, target: int) -> None:
        certificate = write_certificates(folder)
        self.ca_file = folder / "authority.pem"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._target = target
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.refused = 0

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def close(self) -> None:
        # Closing alone would leave the accept under way waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _lead(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if client.recv(8, socket.MSG_WAITALL) != SSL_REQUEST:
                self.refused += 1
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as secured,
                socket.create_connection((HOST, self._target)) as server,
            ):
                back = threading.Thread(target=_pump, args=(server, secured), daemon=True)
                back.start()
                _pump(secured, server)
                back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65_536):
            sink.sendall(content)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_proxy(folder: Path, target: int) -> Iterator[TlsProxy]:
    proxy = TlsProxy(folder, target)
    serving = threading.Thread(target=proxy.serve, daemon=True)
    serving.start()
    try:
        yield proxy
    finally:
        proxy.close()
        serving.join()
