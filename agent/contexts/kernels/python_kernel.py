"""Runs ipykernel for one context. Arguments: the Jupyter connection file.

File descriptor 3 is a socket to the agent: one JSON line goes out when the kernel may be connected to, or when it
cannot start; its end is the agent's end, and then this process ends too.
"""

import json
import os
import signal
import sys
import traceback

agent_fd = 3
exit_ipykernel_missing = 86


def main():
    os.set_inheritable(agent_fd, False)
    try:
        import ipykernel.kernelapp  # noqa: F401
    except ImportError as error:
        tell_agent({"missing": f"{sys.executable}: {error}"})
        sys.exit(exit_ipykernel_missing)
    hide_debugger()

    sys.dont_write_bytecode, written = True, sys.dont_write_bytecode
    import python_app

    sys.dont_write_bytecode = written
    # Imports of the context search its own folder, not the folder of this script.
    sys.path[0] = ""

    try:
        app = python_app.start(sys.argv[1], agent_fd)
    except BaseException:
        # Standard error may already belong to the context.
        tell_agent({"failed": traceback.format_exc()})
        raise
    sys.argv = [""]
    tell_agent({"ready": True})
    app.start()


def hide_debugger():
    """debugpy takes a quarter of the kernel's start and is only for editors. The context can import it later."""
    sys.modules["debugpy"] = None
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]


def tell_agent(message):
    os.write(agent_fd, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    # An interrupt during the start must not leave a half-made kernel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
