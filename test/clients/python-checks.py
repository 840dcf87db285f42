"""Checks of the installed client; `sync` or `async`. The same steps for both: calls of the sync client are awaited, too."""

import asyncio
import inspect
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx
from sandbox_platform import AsyncSandbox, CommandFailedError, Sandbox, SandboxError

IS_ASYNC = sys.argv[1] == "async"
Client: Any = AsyncSandbox if IS_ASYNC else Sandbox


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def first(values: Any, count: int = 1) -> list[Any]:
    found = []
    if IS_ASYNC:
        async for value in values:
            found.append(value)
            if len(found) == count:
                break
    else:
        for value in values:
            found.append(value)
            if len(found) == count:
                break
    return found


async def code_of(work: Any) -> str:
    try:
        await done(work())
    except SandboxError as error:
        return error.code
    return "nothing was raised"


def fetch(url: str) -> tuple[int, str]:
    """As a program that resolves the names of sandboxes; here every name leads to the gateway."""
    parts = urlsplit(url)
    address = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()
    reply = httpx.get(address, headers={"Host": parts.netloc})
    return reply.status_code, reply.text


def pause_soon(sandbox_id: str) -> None:
    """Pauses a sandbox while this program waits for something else."""
    url = f"{os.environ['PLATFORM_URL']}/v1/sandboxes/{sandbox_id}/pause"
    send = lambda: httpx.post(url, headers={"X-API-Key": os.environ["PLATFORM_API_KEY"]}, timeout=60)
    threading.Timer(0.5, send).start()


async def check(sandbox: Any) -> None:
    await done(sandbox.pause())
    assert (await done(sandbox.info()))["status"] == "paused"
    assert await code_of(lambda: sandbox.commands.run("true")) == "sandbox_not_running"
    await done(sandbox.resume())
    listed = await first(Client.list(metadata={"made": "by-python-" + sys.argv[1]}))
    assert [each["sandbox_id"] for each in listed] == [sandbox.id]
    same = await done(Client.get(sandbox.id))
    assert (same.id, same.access_token) == (sandbox.id, sandbox.access_token)
    await done(same.close())
    print("sandboxes")

    assert await code_of(lambda: Client.create("none")) == "template_not_found"
    assert await code_of(lambda: Client.create(api_key="wrong")) == "unauthenticated"
    assert await code_of(lambda: Client.create(api_url="127.0.0.1:7080")) == "not_configured"
    await done((await done(Client.get(sandbox.id, api_key=os.environ["PLATFORM_API_KEY"] + "\n"))).close())
    try:
        await done(Client.create(timeout=1))
        raise AssertionError("a timeout of a second was taken")
    except SandboxError as error:
        assert (error.code, error.status) == ("validation_failed", 400), error
        assert error.details[0]["path"] == "timeout" and error.request_id
    try:
        await done(sandbox.files.read("/none\x1b[2J\u202e"))
        raise AssertionError("a missing file raised nothing")
    except SandboxError as error:
        assert "/none\\x1b[2J\\u202e" in error.message and str(error).isprintable(), ascii(str(error))
    print("errors")

    pieces: list[str] = []
    result = await done(
        sandbox.commands.run("echo $GREETING; echo 'wörld €' >&2; exit 3", on_stdout=pieces.append, on_stderr=pieces.append)
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, "hello\n", "wörld €\n"), result
    assert sorted(pieces) == ["hello\n", "wörld €\n"]
    assert (await done(sandbox.commands.run("sort", stdin="b\na\n"))).stdout == "a\nb\n"
    assert (await done(sandbox.commands.run(["cat", "-"], stdin=b"$HOME"))).stdout == "$HOME"
    assert (await done(sandbox.commands.run("cat; echo end"))).stdout == "end\n"
    try:
        await done(sandbox.commands.run("echo bad >&2; exit 4", check=True))
        raise AssertionError("a failed command raised nothing")
    except CommandFailedError as error:
        assert (error.exit_code, error.stderr) == (4, "bad\n")
    print("commands")

    cat = await done(sandbox.commands.run(["cat"], background=True, stdin=True, tag="cat"))
    assert [each.command for each in await done(sandbox.commands.list()) if each.tag == "cat"] == [["cat"]]
    follower = await done(sandbox.commands.connect("cat"))
    await done(cat.send_stdin("typed\n"))
    assert (await first(cat))[0].data == b"typed\n"
    assert (await first(follower))[0].data == b"typed\n"
    assert await done(sandbox.commands.kill(cat.pid)) is True
    print("background")

    assert await code_of(lambda: sandbox.commands.run("exec sleep 987", timeout=0.3)) == "timed_out"
    assert (await done(sandbox.commands.run("pgrep -f '[s]leep 987'"))).exit_code == 1
    pause_soon(sandbox.id)
    assert await code_of(lambda: sandbox.commands.run("exec sleep 986", timeout=5)) == "timed_out"
    await done(sandbox.resume())
    left = await done(sandbox.commands.run("exec sleep 985", background=True))
    await done(left.disconnect())
    assert await code_of(left.wait) == "disconnected"
    assert await done(sandbox.commands.kill(left.pid)) is True
    much = await done(sandbox.commands.run("seq 1 100000", max_output=100))
    assert much.truncated and len(much.stdout) == 100 and much.stdout.endswith("100000\n")
    print("limits")

    files = sandbox.files
    data = bytes(range(256)) * 4000
    await done(files.write("/root/tree/ä b/data.bin", data))
    assert await done(files.read_bytes("/root/tree/ä b/data.bin")) == data
    await done(files.write("tree/in-home.txt", "text"))
    assert await done(files.read("~/tree/in-home.txt")) == "text"
    paths = [entry.path for entry in await done(files.list("/root/tree", depth=2)) if entry.size == len(data)]
    assert paths == ["/root/tree/ä b/data.bin"], paths
    assert await done(files.make_dir("/root/tree/new")) is True
    assert await done(files.make_dir("/root/tree/new")) is False
    moved = await done(files.move("/root/tree/in-home.txt", "/root/tree/new/moved.txt"))
    assert (moved.name, moved.type, moved.size) == ("moved.txt", "file", 4)
    assert moved.modified_at.year > 2000
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "here"
        here.write_bytes(data)
        await done(files.upload(here, "/root/there"))
        await done(files.download("/root/there", Path(folder) / "back"))
        assert (Path(folder) / "back").read_bytes() == data
        tree = Path(folder) / "tree"
        (tree / "with space/ü").mkdir(parents=True)
        (tree / "empty").mkdir(mode=0o700)
        (tree / "with space/ü/line\nbreak").write_bytes(data)
        (tree / "zero").touch(0o755)
        os.utime(tree / "zero", (-5e8, 1e9 + 0.25))
        (tree / "link").symlink_to("../outside")
        os.mkfifo(tree / "pipe")
        sent = await done(files.upload_folder(tree, "folders/sent"))
        assert (sent.files, sent.folders, sent.links, sent.skipped, sent.bytes) == (2, 3, 1, 1, len(data)), sent
        await done(sandbox.commands.run("mkfifo folders/sent/pipe"))
        back = Path(folder) / "back-again"
        for _ in range(2):
            assert await done(files.download_folder("/root/folders/sent", back)) == sent
            assert (back / "with space/ü/line\nbreak").read_bytes() == data
            assert os.readlink(back / "link") == "../outside" and not (back / "pipe").exists()
            for name in "zero", "empty", "with space/ü/line\nbreak", "link":
                one, other = (tree / name).lstat(), (back / name).lstat()
                assert one.st_mode == other.st_mode and abs(one.st_mtime - other.st_mtime) < 1e-5, name
        assert await code_of(lambda: files.download_folder("/root/none", back)) == "not_found"
    await done(files.write_many([{"path": "/root/many/a", "data": "A"}, {"path": "many/b", "data": b"B", "mode": 0o700}]))
    assert (await done(sandbox.commands.run("cat many/a many/b; stat -c %a many/b"))).stdout == "AB700\n"
    await done(files.write("/root/streamed", data))
    assert b"".join(await first(files.read_stream("streamed"), 10**9)) == data
    part = files.read_stream("/root/streamed")
    assert data.startswith((await first(part))[0])
    await done(part.aclose() if IS_ASYNC else part.close())
    await done(files.remove("/root/tree"))
    assert await done(files.exists("/root/tree")) is False
    assert await code_of(lambda: files.read("/root/none")) == "not_found"
    assert await code_of(lambda: files.read("/root")) == "invalid_argument"
    print("files")

    await done(files.make_dir("/root/watched"))
    watch = await done(files.watch("/root/watched"))
    await done(files.write("/root/watched/a.txt", "x"))
    event = (await first(watch))[0]
    assert (event.name, event.type) == ("a.txt", "create")
    await done(watch.close())
    print("watch")

    url = await done(files.download_url("/root/watched/a.txt", expires_in=60))
    assert fetch(url) == (200, "x")
    assert fetch(url.replace("a.txt", "b.txt"))[0] == 401
    print("signed")

    terminal = await done(sandbox.pty.start(cols=100, rows=30))
    await done(terminal.resize(cols=111, rows=33))
    await done(terminal.write("stty size; exit 5\n"))
    shown: list[bytes] = []
    assert await done(terminal.wait(shown.append)) == 5
    assert b"33 111" in b"".join(shown)
    print("terminal")

    execution = await done(sandbox.run_code('console.log("seen"); let x = 41; x', language="javascript"))
    assert (execution.text, execution.stdout, execution.error) == ("41", "seen\n", None)
    context = await done(sandbox.create_code_context("javascript"))
    execution = await done(sandbox.run_code("x", context=context))
    assert execution.error["name"] == "ReferenceError"
    await done(sandbox.destroy_code_context(context))
    assert await code_of(lambda: sandbox.run_code("x", context=context)) == "not_found"
    for endless in "for (;;);", "for (;;) console.log('more');":
        assert await code_of(lambda: sandbox.run_code(endless, language="javascript", timeout=2)) == "timed_out"
    assert (await done(sandbox.run_code("x", language="javascript", timeout=60))).text == "41"
    # The connection's own limit of silence may end the code before the deadline acts.
    module = sys.modules[Client.__module__]
    deadline = module.AsyncDeadline if IS_ASYNC else module.Deadline
    with mock.patch.object(module, deadline.__name__, lambda _seconds, end: deadline(None, end)):
        assert await code_of(lambda: sandbox.run_code("for (;;);", language="javascript", timeout=2)) == "timed_out"
    shown = """display({ a: [1, 2n ** 53n + 1n] });
display({ 'application/vnd.sandbox.data+json': { text: '{"n": [1e-12, 9007199254740993]}' } }, { raw: true })"""
    results = (await done(sandbox.run_code(shown, language="javascript"))).results
    assert results[0].json == {"a": [1, 9007199254740993]}
    assert results[1].data == {"n": [1e-12, 9007199254740993]}
    print("code")

    await done(sandbox.commands.run("python3 -m http.server 8123", background=True, cwd="/root/watched"))
    await done(sandbox.commands.run("until curl -sf http://127.0.0.1:8123/ >/dev/null; do sleep 0.1; done", timeout=60))
    assert (await done(sandbox.ports.request(8123, "/a.txt"))).text == "x"
    assert (await done(sandbox.ports.add(8123, "web")))["port"] == 8123
    assert 8123 in [each["port"] for each in (await done(sandbox.ports.list()))["ports"]]
    await done(sandbox.ports.remove(8123))
    status, page = fetch(sandbox.web_url("files"))
    assert (status, "/files/assets/files-" in page) == (200, True), page
    print("ports")


async def main() -> None:
    sandbox = await done(Client.create(envs={"GREETING": "hello"}, metadata={"made": "by-python-" + sys.argv[1]}))
    try:
        await check(sandbox)
    finally:
        await done(sandbox.terminate())
        await done(sandbox.close())
    print("done")


asyncio.run(main())
