"""Publishes standard output and error of a Python context in order: the output of print, and of subprocesses, which
write to descriptors 1 and 2. A slow reader slows the writer instead of filling memory."""

import codecs
import collections
import fcntl
import io
import os
import select
import signal
import threading
import time

message_chars = 64 * 1024
# Larger than the default. Native code that prints while it holds the interpreter's lock blocks the reader of the pipe.
# The kernel limits the pipe memory of a user (pipe-user-pages-soft), so later contexts get smaller pipes.
pipe_sizes_bytes = (1024 * 1024, 256 * 1024, 64 * 1024)
unsent_messages = 8
flush_seconds = 0.03
set_pipe_size = 1031  # F_SETPIPE_SZ. Python has a name for it since 3.10.


class OutputPublisher:
    """Both streams as one sequence of Jupyter `stream` messages."""

    def __init__(self, session, iopub_thread, agent_fd):
        self.session = session
        self.iopub_thread = iopub_thread
        self.get_parent = dict
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.pending_name = None
        self.pending = []
        self.pending_chars = 0
        self.sent_at = 0.0
        self.unsent = collections.deque()
        # The interpreter's own messages at its death go to the agent, not to the context's pipes.
        self.fatal_fd = os.dup(2)
        self.captured = {name: CapturedDescriptor(fd) for name, fd in (("stdout", 1), ("stderr", 2))}
        self.captured_poll = select.poll()
        for captured in self.captured.values():
            self.captured_poll.register(captured.read_fd, select.POLLIN)
        self.agent_fd = agent_fd
        self.wake_fd, self.waker_fd = os.pipe()
        os.set_blocking(self.waker_fd, False)
        threading.Thread(target=self.watch, name="output", daemon=True).start()

    def write(self, name, text):
        if os.getpid() != self.pid:
            # A forked child has none of this process's threads, but it has the pipe.
            write_all(self.captured[name].fd, text.encode("utf-8", "backslashreplace"))
        elif threading.current_thread() is self.iopub_thread.thread:
            # A waiting send waits for this very thread.
            write_all(self.fatal_fd, text.encode("utf-8", "backslashreplace"))
        else:
            with self.lock:
                self.take_captured()
                self.append(name, text)
                if self.pending and "\n" in text and time.monotonic() - self.sent_at > flush_seconds:
                    self.send()
                    self.wait_for_sends()

    def flush(self):
        if os.getpid() == self.pid and threading.current_thread() is not self.iopub_thread.thread:
            with self.lock:
                self.take_captured()
                self.send()
                self.wait_for_sends()

    def take_captured(self):
        """Reads at most the current contents of the pipes, so that an endless writer does not block the reader."""
        if not self.captured_poll.poll(0):
            return
        for name, captured in self.captured.items():
            text = captured.read()
            if text:
                self.append(name, text)

    def append(self, name, text):
        if not text:
            return
        if name != self.pending_name:
            self.send()
            self.pending_name = name
        for start in range(0, len(text), message_chars):
            piece = text[start : start + message_chars]
            if not self.pending:
                self.wake()
            self.pending.append(piece)
            self.pending_chars += len(piece)
            if self.pending_chars >= message_chars:
                self.send()

    def send(self):
        """Passes pending output to the publishing thread, and waits while that thread is too far behind."""
        if not self.pending:
            return
        content = {"name": self.pending_name, "text": "".join(self.pending)}
        self.pending, self.pending_chars = [], 0
        if not content["text"].isascii():
            # Lone surrogates (of undecodable file names) are not valid in JSON.
            content["text"] = content["text"].encode("utf-8", "backslashreplace").decode("utf-8")
        self.session.send(
            self.iopub_thread, "stream", content, parent=self.get_parent(), ident=b"stream." + content["name"].encode()
        )
        sent = threading.Event()
        self.iopub_thread.schedule(sent.set)
        self.unsent.append(sent)
        self.sent_at = time.monotonic()
        self.wait_for_sends(leave=unsent_messages)

    def wait_for_sends(self, leave=0):
        while len(self.unsent) > leave:
            self.unsent[0].wait()
            self.unsent.popleft()

    def wake(self):
        try:
            os.write(self.waker_fd, b"\0")
        except BlockingIOError:
            pass  # Enough wake-ups are already pending.

    def watch(self):
        """Publishes unflushed output soon after it was written, and ends this process when the agent has ended."""
        poll = select.poll()
        for fd in (self.agent_fd, self.wake_fd, *(captured.read_fd for captured in self.captured.values())):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, events in poll.poll():
                if fd == self.wake_fd:
                    os.read(fd, 4096)
                if fd == self.agent_fd and events & (select.POLLHUP | select.POLLERR):
                    os.killpg(0, signal.SIGKILL)
            time.sleep(flush_seconds)
            self.flush()


class CapturedDescriptor:
    """A descriptor of this process turned into a pipe that this process reads."""

    def __init__(self, fd):
        self.fd = fd
        self.read_fd, write_fd = os.pipe()
        os.dup2(write_fd, fd)
        os.close(write_fd)
        enlarge(self.read_fd)
        os.set_blocking(self.read_fd, False)
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def read(self):
        try:
            return self.decode(os.read(self.read_fd, pipe_sizes_bytes[0]))
        except BlockingIOError:
            return ""


def enlarge(pipe_fd):
    """Gives a pipe the largest size that the kernel grants. A pipe of the kernel's own size works, too."""
    for size_bytes in pipe_sizes_bytes:
        try:
            fcntl.fcntl(pipe_fd, set_pipe_size, size_bytes)
            return
        except OSError:
            pass  # The user's pipe memory is used up, or the kernel lacks the call.


class OutputStream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of the context."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, publisher, name):
        self.publisher = publisher
        self.name = f"<{name}>"
        self.stream = name
        self.buffer = BinaryOutput(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.publisher.write(self.stream, text)
        return len(text)

    def flush(self):
        self.publisher.flush()

    def fileno(self):
        return self.publisher.captured[self.stream].fd

    def writable(self):
        return True

    def reconfigure(self, **options):
        """Accepted because scripts set their encoding with it. The encoding stays UTF-8."""


class BinaryOutput(io.RawIOBase):
    """`sys.stdout.buffer`: bytes are written like text."""

    def __init__(self, stream):
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, data):
        data = bytes(data)
        self.stream.write(self.decode(data))
        return len(data)

    def flush(self):
        self.stream.flush()

    def fileno(self):
        return self.stream.fileno()

    def writable(self):
        return True


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]
