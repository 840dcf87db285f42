"""The IPython kernel of a context, with the agent's additions: ordered streams, variables of one execution, charts."""

import faulthandler
import os
import signal
import socket
import sys
import traceback
import warnings

import python_charts
import python_streams
import python_tables
import python_values
import zmq
from ipykernel.kernelapp import IPKernelApp
from IPython.core.formatters import BaseFormatter, JSONFormatter
from tornado.ioloop import IOLoop
from traitlets import ObjectName, Unicode

chart_mime = "application/vnd.sandbox.chart+json"
data_mime = "application/vnd.sandbox.data+json"
# With messages of at most 64 Ki characters, the data that waits for a slow reader stays small.
queued_messages = 16


class ContextKernelApp(IPKernelApp):
    agent_fd = -1

    def init_iopub(self, context):
        # Without these, ZeroMQ drops output that its reader cannot take at once.
        limits = {zmq.SNDHWM: queued_messages, zmq.XPUB_NODROP: 1}
        for option, value in limits.items():
            context.setsockopt(option, value)
        try:
            super().init_iopub(context)
        finally:
            for option in limits:
                del context.sockopts[option]

    def init_io(self):
        super().init_io()
        self.publisher = python_streams.OutputPublisher(self.session, self.iopub_thread, self.agent_fd)
        sys.stdout = python_streams.OutputStream(self.publisher, "stdout")
        sys.stderr = python_streams.OutputStream(self.publisher, "stderr")
        faulthandler.enable(self.publisher.fatal_fd)

    def init_kernel(self):
        super().init_kernel()
        self.publisher.get_parent = lambda: self.kernel.get_parent("shell")

    def start(self):
        # A signal has to wake the event loop. ipykernel's own handler only sets a flag, so an interrupted await would
        # continue until another event.
        reader, self.signal_writer = socket.socketpair()
        reader.setblocking(False)
        self.signal_writer.setblocking(False)
        IOLoop.current().asyncio_loop.add_reader(reader, reader.recv, 4096)
        signal.set_wakeup_fd(self.signal_writer.fileno(), warn_on_full_buffer=False)
        super().start()


def start(connection_file, agent_fd):
    """Prepares the kernel for connections."""
    # pandas and matplotlib read these when they are imported.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    app = ContextKernelApp.instance()
    app.agent_fd = agent_fd
    app.initialize(
        [
            f"--f={connection_file}",
            "--log-level=50",
            # The stream class of ipykernel drops late output and does not slow its writer.
            "--IPKernelApp.capture_fd_output=False",
            "--HistoryManager.enabled=False",
            "--InteractiveShell.colors=NoColor",
        ]
    )
    shell = app.shell
    execution_environment = ExecutionEnvironment(shell)
    shell.events.register("pre_run_cell", execution_environment.set)
    shell.events.register("post_run_cell", execution_environment.restore)
    shell.user_ns["exit"] = shell.user_ns["quit"] = leave
    shell.user_ns_hidden.update({"exit": leave, "quit": leave})
    # The message is meant for people at a prompt.
    warnings.filterwarnings("ignore", message="To exit: use 'exit'", category=UserWarning)
    add_formatters(shell.display_formatter)
    return app


def leave(*code):
    """`exit()` ends the execution as it would end a script, and the context stays."""
    raise SystemExit(*code)


class ExecutionEnvironment:
    """Environment variables of one execution: set before it and restored after it."""

    def __init__(self, shell):
        self.shell = shell
        self.saved = {}

    def set(self, *_):
        self.restore()
        for name, value in self.shell.get_parent().get("metadata", {}).get("env_vars", {}).items():
            self.saved[name] = os.environ.get(name)
            os.environ[name] = value

    def restore(self, *_):
        for name, value in self.saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.saved = {}


class ChartFormatter(BaseFormatter):
    format_type = Unicode(chart_mime)
    print_method = ObjectName("_repr_sandbox_chart_")
    _return_type = dict

    def __call__(self, value):
        # `for_type` is not used, because the inline backend removes the printers of figures from every formatter.
        figures = sys.modules.get("matplotlib.figure")
        if figures and isinstance(value, figures.Figure):
            return never_fail(python_charts.figure_chart)(value)
        return super().__call__(value)


class DataFormatter(BaseFormatter):
    format_type = Unicode(data_mime)
    print_method = ObjectName("_repr_sandbox_data_")
    _return_type = dict

    def __call__(self, value):
        return super().__call__(value) if is_wanted("wants_data") else None


class ValueFormatter(JSONFormatter):
    def __call__(self, value):
        if isinstance(value, (list, dict)) and is_wanted("wants_json"):
            return never_fail(python_values.as_json)(value)
        return super().__call__(value)


def is_wanted(name):
    """Whether the request of the execution asks for a format."""
    request = ContextKernelApp.instance().kernel.get_parent("shell")
    return request.get("metadata", {}).get(name)


def add_formatters(display_formatter):
    data = DataFormatter(parent=display_formatter)
    # In pandas 3 the class's module is the public one, in earlier versions the defining one.
    for module in ("pandas", "pandas.core.frame"):
        data.for_type_by_name(module, "DataFrame", python_tables.frame_data)
    display_formatter.formatters[chart_mime] = ChartFormatter(parent=display_formatter)
    display_formatter.formatters[data_mime] = data
    display_formatter.formatters["application/json"] = ValueFormatter(parent=display_formatter)
    python_charts.watch_box_plots()


def never_fail(describe):
    """If a figure or table cannot be described, it is still shown, and the agent gets the error."""

    def described(value):
        try:
            return describe(value)
        except Exception:
            fatal_fd = ContextKernelApp.instance().publisher.fatal_fd
            python_streams.write_all(fatal_fd, traceback.format_exc().encode())
            return None

    return described
