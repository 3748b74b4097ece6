"""A Ray node on a busy machine: its raylet ends where an agent takes 15 s to say on which port it
listens."""

import contextlib
import os
import threading
import time
from pathlib import Path

import psutil


def tell_agent_port(port: int, parent: int | None = None) -> None:
    """Say in the agent's place, in the background, that it listens on this port, which its node was
    started with. parent: the process that starts the raylet; this one by default. The other ports
    Ray takes as they were given."""
    threading.Thread(target=_tell, args=(port, parent or os.getpid()), daemon=True).start()


def _tell(port: int, parent: int) -> None:
    for _ in range(900):
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(parent).children(recursive=True):
                words = dict(word.split("=", 1) for word in process.cmdline() if "=" in word)
                if "--session_dir" in words and "--node_id" in words:
                    port_file = (
                        Path(words["--session_dir"])
                        / f"dashboard_agent_listen_port_{words['--node_id']}"
                    )
                    if not port_file.exists():
                        port_file.write_text(str(port))
                        return
        time.sleep(0.2)
