"""Checks of the installed client; `sync` or `async`. The same steps for both: calls of the sync client are awaited, too."""

import asyncio
import inspect
import json
import os
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx
from sandbox_platform import AsyncPlatform, AsyncSandbox, CommandFailedError, Platform, Sandbox, SandboxError

IS_ASYNC = sys.argv[1] == "async"
Client: Any = AsyncSandbox if IS_ASYNC else Sandbox
Account: Any = AsyncPlatform if IS_ASYNC else Platform


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


async def until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def code_of(work: Any) -> str:
    try:
        await done(work())
    except SandboxError as error:
        return error.code
    return "nothing was raised"


def check_progress(seen: list[Any], result: Any, large_bytes: int) -> None:
    """Checks the progress of a copy of the tree of `main`."""
    expected = {"./", "empty/", "link", "with space/", "with space/ü/", "with space/ü/line\nbreak", "zero"}
    assert {each.name for each in seen} - {"pipe"} == expected, seen
    assert any(0 < each.bytes < large_bytes for each in seen if each.name == "with space/ü/line\nbreak"), seen
    last = {name: value for name, value in vars(seen[-1]).items() if name != "name"}
    assert last == vars(result), (last, result)


def end_large(progress: Any) -> None:
    if progress.bytes > 0:
        raise KeyError(progress.name)


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

    handle = await done(sandbox.commands.run("echo one; echo two >&2; exit 3", background=True))
    outputs = {(piece.source, piece.data) for piece in await first(handle, 2)}
    assert outputs == {("stdout", b"one\n"), ("stderr", b"two\n")}
    for _ in range(2):
        result = await done(handle.wait())
        assert (result.exit_code, result.stdout, result.stderr) == (3, "one\n", "two\n"), result
    assert (handle.exit_code, handle.stdout, handle.stderr) == (3, "one\n", "two\n")
    assert await done(handle.kill()) is False
    heard: list[str] = []
    timed = await done(
        sandbox.commands.run("echo heard; exec sleep 981", background=True, timeout=0.5, on_stdout=heard.append)
    )
    await until(lambda: timed.exit_code is not None)
    assert (timed.exit_code, heard) == (137, ["heard\n"])
    assert await code_of(timed.wait) == "timed_out"
    unread = await done(sandbox.commands.run("seq 1 1000000; exit 4", background=True, tag="found-again"))
    await until(lambda: unread.exit_code == 4)
    assert len(unread.stdout) == sum(len(piece.data) for piece in await first(unread, -1)) == 6_888_896
    for process in (unread.pid, "found-again"):
        found = await done(sandbox.commands.connect(process))
        assert ((await done(found.wait())).exit_code, found.pid) == (4, unread.pid)
    assert await code_of(lambda: sandbox.commands.connect("never")) == "not_found"
    sort = await done(sandbox.commands.run("sort", background=True, stdin=True))
    await done(sort.send_stdin("b\na\n"))
    await done(sort.close_stdin())
    assert (await done(sort.wait())).stdout == "a\nb\n"
    result = await done(sandbox.commands.run("sleep 982 & echo ok", timeout=20))
    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert (await done(sandbox.commands.run(["pgrep", "-f", "^sleep 982"]))).exit_code == 0
    much = b"line\n" * 4_000_000
    assert (await done(sandbox.commands.run("wc -c", stdin=much))).stdout.strip() == "20000000"
    assert (await done(sandbox.commands.run("head -1", stdin=much))).stdout == "line\n"
    await done(sandbox.commands.run("id ada || useradd --create-home ada", check=True))
    assert (await done(sandbox.commands.run("id -un; pwd; cat", user="ada", stdin="x"))).stdout == "ada\n/home/ada\nx"
    terminal = await done(sandbox.pty.start(["id", "-un"], user="ada"))
    assert (await first(terminal, -1), terminal.exit_code) == ([b"ada\r\n"], 0)
    deaf = await done(sandbox.commands.run("sleep 985", background=True, stdin=True))
    assert await code_of(lambda: deaf.send_stdin(b"x" * 1_000_000, request_timeout=0.3)) == "timed_out"
    await done(deaf.kill())
    print("handles")

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
        seen: list[Any] = []
        sent = await done(files.upload_folder(tree, "folders/sent", on_progress=seen.append))
        check_progress(seen, sent, len(data))
        assert "pipe" in [each.name for each in seen]
        assert (sent.files, sent.folders, sent.links, sent.skipped, sent.bytes) == (2, 3, 1, 1, len(data)), sent
        await done(sandbox.commands.run("mkfifo folders/sent/pipe"))
        back = Path(folder) / "back-again"
        for _ in range(2):
            seen.clear()
            assert await done(files.download_folder("/root/folders/sent", back, on_progress=seen.append)) == sent
            check_progress(seen, sent, len(data))
            assert (back / "with space/ü/line\nbreak").read_bytes() == data
            assert os.readlink(back / "link") == "../outside" and not (back / "pipe").exists()
            for name in "zero", "empty", "with space/ü/line\nbreak", "link":
                one, other = (tree / name).lstat(), (back / name).lstat()
                assert one.st_mode == other.st_mode and abs(one.st_mtime - other.st_mtime) < 1e-5, name
        assert await code_of(lambda: files.download_folder("/root/none", back)) == "not_found"
        ended = Path(folder) / "ended"
        ways = (files.upload_folder, tree, "folders/ended"), (files.download_folder, "folders/sent", ended)
        for copy, source, target in ways:
            try:
                await done(copy(source, target, on_progress=end_large))
                raise AssertionError("nothing was raised")
            except KeyError as error:
                assert error.args == ("with space/ü/line\nbreak",), error
        assert not [each for each in ended.rglob("*") if each.is_file() and each.name != "zero"]
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

    await done(sandbox.commands.run("sleep 1; exec python3 -m http.server 8123", background=True, cwd="/root/watched"))
    assert await done(sandbox.ports.wait_for(8123)) == sandbox.ports.url(8123)
    assert await code_of(lambda: sandbox.ports.wait_for(8124, timeout=0.3)) == "timed_out"
    assert (await done(sandbox.ports.request(8123, "/a.txt"))).text == "x"
    assert (await done(sandbox.ports.add(8123, "web")))["port"] == 8123
    assert 8123 in [each["port"] for each in (await done(sandbox.ports.list()))["ports"]]
    await done(sandbox.ports.remove(8123))
    status, page = fetch(sandbox.web_url("files"))
    assert (status, "/files/assets/files-" in page) == (200, True), page
    print("ports")

    await done(files.write("/srv/git-server.py", Path(__file__).with_name("git-server.py").read_bytes()))
    prepare = """git init --quiet --bare -b main /srv/git/app.git && git -C /srv/git/app.git config http.receivepack true
git init --quiet -b main /srv/first && cd /srv/first && echo one > one && git add . &&
git -c user.name=x -c user.email=x@x commit --quiet -m first && git push --quiet /srv/git/app.git main"""
    await done(sandbox.commands.run(prepare, check=True))
    for port in (8410, 8411):
        await done(sandbox.commands.run(f"exec python3 /srv/git-server.py {port} /srv/git", background=True))
        await done(sandbox.ports.wait_for(port))
    url = "http://127.0.0.1:8410/app.git"
    assert await code_of(lambda: sandbox.git.clone(url, "/root/app")) == "command_failed"
    await done(sandbox.git.clone(url, "/root/app", token="secret-token", branch="main", depth=1))
    await done(files.write("/root/app/new file", "two"))
    await done(files.write("/root/app/one", "changed"))
    status = await done(sandbox.git.status("/root/app"))
    shown = [(file.path, file.staged, file.unstaged) for file in status.files]
    assert (status.branch, status.ahead, status.behind) == ("main", 0, 0), status
    assert shown == [("one", " ", "M"), ("new file", "?", "?")], shown
    author = "Ada Lovelace <ada@example.com>"
    commit = await done(sandbox.git.commit("/root/app", 'Only "one"', author=author, files=["one"]))
    await done(sandbox.git.commit("/root/app", "The rest", author=author))
    await done(sandbox.commands.run("git -C /root/app mv one two", check=True))
    status = await done(sandbox.git.status("/root/app"))
    assert (status.ahead, [(file.path, file.staged) for file in status.files]) == (2, [("two", "R")]), status
    assert await code_of(lambda: sandbox.git.push("/root/app")) == "command_failed"
    await done(sandbox.git.push("/root/app", token="secret-token"))
    log = await done(sandbox.commands.run("git -C /srv/git/app.git log --format='%H %an <%ae> %s' main"))
    assert f'{commit} {author} Only "one"' in log.stdout, log.stdout
    # A repository of another name on the same server, and then redirects to another server.
    renamed = "http://127.0.0.1:8410/to/8410/app.git"
    await done(sandbox.git.clone(renamed, "/root/renamed", token="secret-token"))
    await done(sandbox.git.push("/root/renamed", token="secret-token"))
    await done(sandbox.git.push("/root/renamed", token="secret-token", remote="/srv/git/app.git"))
    for to in ("to", "then-to"):
        away = f"http://127.0.0.1:8410/{to}/8411/app.git"
        clone = lambda: sandbox.git.clone(away, "/root/away", token="secret-token")
        assert await code_of(clone) == "command_failed"
        push = lambda: sandbox.git.push("/root/app", token="secret-token", remote=away)
        assert await code_of(push) == "command_failed"
        await done(sandbox.commands.run(["git", "-C", "/root/app", "remote", "set-url", "origin", away], check=True))
        assert await code_of(lambda: sandbox.git.push("/root/app", token="secret-token")) == "command_failed"
    seen = (await done(sandbox.ports.request(8411, "/seen"))).json()
    assert (seen["requests"] > 6, seen["authorized"]) == (True, 0), seen
    assert (await done(sandbox.commands.run("grep -r secret-token /root /home /tmp"))).exit_code == 1
    print("git")

    await done(files.write("/root/kept", "kept"))
    await done(sandbox.restart())
    assert await done(sandbox.commands.list()) == []
    assert await done(files.read("/root/kept")) == "kept"
    metrics = await done(sandbox.metrics(start=datetime.now(timezone.utc) - timedelta(minutes=5)))
    assert metrics[0]["mem_total"] > 0, metrics
    print("restart")


async def check_account(platform: Any) -> None:
    jobs: list[Any] = []
    name = f"python-{sys.argv[1]}"
    template = await done(
        platform.templates.import_(name, os.environ["TEST_IMAGE"], memory_mb=256, on_progress=jobs.append)
    )
    assert (template["status"], template["default_memory_mb"]) == ("available", 256), template
    assert jobs[-1]["status"] == "completed"
    assert name in [each["name"] for each in await first(platform.templates.list(usable=True), -1)]
    await done(platform.templates.delete(template["template_id"]))
    assert await code_of(lambda: platform.templates.get(template["template_id"])) == "not_found"
    assert await code_of(lambda: platform.templates.import_(f"no-{name}", os.environ["TEST_IMAGE"] + "none")) == "import_failed"
    made = await done(platform.api_keys.create(name))
    assert made["key_id"] in [each["key_id"] for each in await first(platform.api_keys.list(), -1)]
    await done(platform.api_keys.set_active(made["key_id"], False))
    own = Account(api_key=made["api_key"])
    assert await code_of(own.usage.quota) == "unauthenticated"
    await done(own.close())
    await done(platform.api_keys.delete(made["key_id"]))
    summary = await done(platform.usage.summary(start=datetime.now(timezone.utc) - timedelta(hours=1)))
    assert summary["summary"]["total_sessions"] > 0, summary
    assert (await done(platform.usage.quota()))["used"]["cpu_seconds"] >= 0
    print("account")

    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    webhook = await done(platform.webhooks.create("http://127.0.0.1:8099/", ["sandbox.*"], secret=secret))
    assert webhook["endpoint_id"] in [each["endpoint_id"] for each in await first(platform.webhooks.list(), -1)]
    assert (await done(platform.webhooks.test(webhook["endpoint_id"])))["event_type"] == "webhook.test"
    await done(platform.webhooks.delete(webhook["endpoint_id"]))
    # A delivery as the platform sends it, with both signatures.
    sent = json.loads(os.environ["TEST_DELIVERY"])
    verify = platform.webhooks.verify
    for key in (secret, sent["public_key"]):
        assert verify(sent["body"], sent["headers"], key)["type"] == "webhook.test"
        assert await code_of(lambda: verify(sent["body"] + " ", sent["headers"], key)) == "invalid_signature"
    wrong = {"webhook-timestamp": "1000"}, {"webhook-signature": "v1,AAAA v1a,AAAA v1a"}, {"webhook-timestamp": "now"}
    for headers in wrong:
        for key in (secret, sent["public_key"]):
            given = {**sent["headers"], **headers}
            assert await code_of(lambda: verify(sent["body"], given, key)) == "invalid_signature"
    assert await code_of(lambda: verify(sent["body"], {}, secret)) == "invalid_signature"
    assert await code_of(lambda: verify(sent["body"], sent["headers"], "secret")) == "not_configured"
    print("webhooks")


async def main() -> None:
    sandbox = await done(Client.create(envs={"GREETING": "hello"}, metadata={"made": "by-python-" + sys.argv[1]}))
    try:
        await check(sandbox)
    finally:
        await done(sandbox.terminate())
        await done(sandbox.close())
    platform = Account()
    try:
        await check_account(platform)
    finally:
        await done(platform.close())
    print("done")


asyncio.run(main())
