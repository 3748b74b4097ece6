"""Which nodes do not answer."""

import socket

from audit.runtime.model_run import silent_nodes


def test_a_node_that_takes_no_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as raylet, socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))  # a port where nobody listens
        here, gone = (
            {"NodeManagerAddress": address, "NodeManagerPort": port}
            for address, port in (raylet.getsockname(), taken.getsockname())
        )
        assert silent_nodes([here, gone, here]) == ["127.0.0.2"]
        assert silent_nodes([here]) == []
