"""Calls every method that docs/e2b.md calls supported or refused, except those of the code interpreter, through the installed
version of the Python package e2b: `sdk.py sync` with the classes that block, `sdk.py async` with those of asyncio."""

import asyncio
import datetime
import inspect
import io
import os
import re
import sys
import time
import typing
import urllib.error
import urllib.parse
import urllib.request

import e2b
from called_methods import CalledMethods
from parts import run_parts, until

is_async = sys.argv[1] == "async"
Sandbox: typing.Any = e2b.AsyncSandbox if is_async else e2b.Sandbox
Template: typing.Any = e2b.AsyncTemplate if is_async else e2b.Template
Volume: typing.Any = e2b.AsyncVolume if is_async else e2b.Volume
Secret: typing.Any = e2b.AsyncSecret if is_async else e2b.Secret
gateway = urllib.parse.urlparse(os.environ["E2B_SANDBOX_URL"])
called = CalledMethods(__file__)


async def got(result: typing.Any) -> typing.Any:
    """The result of a method, which is an awaitable of the classes of asyncio."""
    return await result if inspect.isawaitable(result) else result


async def fails(call: typing.Callable[[], typing.Any], kind: type[Exception], message: str = "") -> typing.Any:
    """The exception, which must be of the kind and contain the text."""
    try:
        result = await got(call())
    except kind as error:
        assert re.search(message, str(error), re.IGNORECASE), f"{error} does not say {message}"
        return error
    raise AssertionError(f"It should fail with {kind.__name__} {message}, and gave {result}")


def fetch(url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, str]:
    """The status and the text of a reply."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers)) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def main() -> None:
    called.begin()
    shared = await got(Sandbox.create(timeout=600, metadata={"role": "shared"}))
    files, commands, pty, git = shared.files, shared.commands, shared.pty, shared.git

    async def sandboxes() -> None:
        options = {"metadata": {"role": "tried", "a key": "ä value"}, "envs": {"GREETING": "hello"}, "timeout": 300}
        sandbox = await got(
            Sandbox.create("base", **options, lifecycle={"on_timeout": "pause"}, allow_internet_access=False)
        )
        assert (await got(sandbox.commands.run("echo $GREETING"))).stdout == "hello\n"
        await fails(lambda: sandbox.commands.run("curl --silent --max-time 3 http://1.1.1.1"), e2b.CommandExitException)
        assert await got(sandbox.is_running())
        info = await got(sandbox.get_info())
        assert (info.sandbox_id, info.state, info.name) == (sandbox.sandbox_id, e2b.SandboxState.RUNNING, "base"), info
        assert info.metadata == options["metadata"], info
        assert round((info.end_at - info.started_at).total_seconds() / 60) == 5, info
        assert (await got(Sandbox.get_info(sandbox.sandbox_id))).end_at == info.end_at
        await got(sandbox.set_timeout(1200))
        later = (await got(sandbox.get_info())).end_at
        assert abs(later.timestamp() - time.time() - 1200) < 60
        await got(Sandbox.set_timeout(sandbox.sandbox_id, 600))
        assert (await got(sandbox.get_info())).end_at < later

        sleeper = await got(sandbox.commands.run("sleep 1000", background=True))
        assert await got(sandbox.pause()) is True
        assert await got(sandbox.pause()) is False
        assert (await got(sandbox.get_info())).state == e2b.SandboxState.PAUSED
        assert await got(sandbox.is_running()) is False
        same = await got(Sandbox.connect(sandbox.sandbox_id, timeout=300))
        assert sleeper.pid in [each.pid for each in await got(same.commands.list())]
        await got(sleeper.disconnect())
        assert await got(Sandbox.pause(sandbox.sandbox_id)) is True
        await got(sandbox.connect())
        assert await got(sandbox.beta_pause()) is True
        await got(sandbox.connect())
        await got(sandbox.files.write("kept", "on the disk"))
        assert await got(Sandbox.beta_pause(sandbox.sandbox_id)) is True
        await got(sandbox.connect(on_resume="reboot"))
        assert await got(sandbox.files.read("kept")) == "on the disk"
        assert await got(sandbox.commands.list()) == []
        assert await got(sandbox.kill()) is True
        assert await got(sandbox.kill()) is False
        assert await got(sandbox.is_running()) is False
        await fails(lambda: Sandbox.connect(sandbox.sandbox_id), e2b.SandboxNotFoundException)

    async def metrics_are_told() -> None:
        async def has_metrics() -> bool:
            return len(await got(shared.get_metrics())) > 0

        await until(has_metrics, "the sandbox has metrics")
        last = (await got(Sandbox.get_metrics(shared.sandbox_id)))[-1]
        assert last.cpu_count == (await got(shared.get_info())).cpu_count, last
        assert 0 < last.mem_used < last.mem_total and 0 < last.disk_used < last.disk_total, last

    async def lists() -> None:
        role = f"listed {sys.argv[1]} {os.getpid()}"
        begun = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=5)
        made = [(await got(Sandbox.create(metadata={"role": role}))) for _ in range(2)]
        first, second = [each.sandbox_id for each in made]

        async def ids(limit: int | None = None, order: str | None = None, token: str | None = None, **query: typing.Any):
            pages = Sandbox.list(
                query=e2b.SandboxQuery(metadata={"role": role}, **query), limit=limit, order=order, next_token=token
            )
            found = []
            while pages.has_next:
                found += [each.sandbox_id for each in await got(pages.next_items())]
            return found

        assert sorted(await ids()) == sorted([first, second])
        assert await ids(limit=1, order="asc") == [first, second]
        assert await ids(limit=1, order="desc") == [second, first]
        pages = Sandbox.list(query=e2b.SandboxQuery(metadata={"role": role}), limit=1, order="asc")
        await got(pages.next_items())
        assert await ids(limit=1, order="asc", token=pages.next_token) == [second]
        await got(made[0].pause())
        assert await ids(state=[e2b.SandboxState.PAUSED]) == [first]
        assert await ids(state=[e2b.SandboxState.RUNNING]) == [second]
        assert len(await ids(started_after=begun, template="base")) == 2
        assert await ids(template="code-interpreter-v1") == []
        assert [await got(Sandbox.kill(each.sandbox_id)) for each in made] == [True, True]
        assert await got(Sandbox.kill(first)) is False

    async def commands_run() -> None:
        result = await got(commands.run("echo out; echo err >&2"))
        assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n"), result
        result = await got(commands.run("whoami; pwd; sudo -n whoami"))
        assert result.stdout == "user\n/home/user\nroot\n", result
        result = await got(commands.run("whoami; pwd; echo $COLOR", user="root", cwd="/tmp", envs={"COLOR": "blue"}))
        assert result.stdout == "root\n/tmp\nblue\n", result
        failed = await fails(lambda: commands.run("echo out; echo err >&2; exit 3"), e2b.CommandExitException)
        assert (failed.exit_code, failed.stdout, failed.stderr) == (3, "out\n", "err\n"), failed
        await fails(lambda: commands.run("sleep 60", timeout=0.5), e2b.TimeoutException)
        await fails(lambda: commands.run("true", user="nobody-of-this-name"), e2b.AuthenticationException)
        await fails(lambda: commands.run("true", cwd="/nowhere"), e2b.InvalidArgumentException, "/nowhere")
        out: list[str] = []
        err: list[str] = []
        await got(
            commands.run("printf 'ä€𝄞'; for i in 1 2 3; do echo $i >&2; sleep 0.05; done", on_stdout=out.append, on_stderr=err.append)
        )
        assert ("".join(out), "".join(err)) == ("ä€𝄞", "1\n2\n3\n"), (out, err)
        assert len((await got(commands.run("head -c 3000000 /dev/zero | tr '\\0' x"))).stdout) == 3_000_000

    async def commands_continue() -> None:
        script = 'while read line; do echo "got $line"; done; echo end'
        options = {"background": True, "stdin": True}
        handle = await got(commands.run(script, **options, envs={"MARK": "mine"}, cwd="/tmp"))
        listed = next(each for each in await got(commands.list()) if each.pid == handle.pid)
        assert (listed.cmd, listed.args[:2], listed.cwd) == ("/bin/bash", ["-l", "-c"], "/tmp"), listed
        assert listed.envs["MARK"] == "mine", listed
        connected = await got(commands.connect(handle.pid))
        await got(handle.send_stdin("one\n"))
        await got(commands.send_stdin(handle.pid, b"two\n"))
        if is_async:
            async with commands.stream_input(handle.pid) as stream:
                await stream.send("thr")
                await stream.send(b"ee\n")
                await stream.close()
        else:
            commands.stream_input(handle.pid, ["thr", b"ee\n"])
        await got(handle.disconnect())
        await got(commands.close_stdin(handle.pid))
        result = await got(connected.wait())
        assert (result.exit_code, result.stdout) == (0, "got one\ngot two\ngot three\nend\n"), result

        reader = await got(commands.run("cat", **options))
        await got(reader.send_stdin("last words"))
        await got(reader.close_stdin())
        assert (await got(reader.wait())).stdout == "last words"
        killed = await got(commands.run("sleep 1000", background=True))
        assert await got(killed.kill()) is True
        assert (await fails(killed.wait, e2b.CommandExitException)).exit_code == -1
        other = await got(commands.run("sleep 1000", background=True, timeout=0))
        assert await got(commands.kill(other.pid)) is True
        await fails(other.wait, e2b.CommandExitException)
        assert await got(commands.kill(other.pid)) is False
        await fails(lambda: commands.connect(999_999), e2b.NotFoundException)
        await fails(lambda: commands.send_stdin(999_999, "x"), e2b.NotFoundException)

    async def terminals() -> None:
        shown: list[bytes] = []
        size = e2b.PtySize(rows=24, cols=80)
        options: typing.Any = {"cwd": "/tmp", "envs": {"MARK": "of the terminal"}, "user": "user", "timeout": 0}
        handlers = {"on_data": shown.append} if is_async else {}
        terminal = await got(pty.create(size, **handlers, **options))
        await got(pty.send_stdin(terminal.pid, b'echo "<$MARK>" "<$PWD>" "<$(stty size)>"\n'))
        await shows(terminal, shown, b"<of the terminal> </tmp> <24 80>")
        await got(pty.resize(terminal.pid, e2b.PtySize(rows=40, cols=100)))
        if is_async:
            async with pty.stream_input(terminal.pid) as stream:
                await stream.send(b'echo "<$(stty size)>"\n')
        else:
            pty.stream_input(terminal.pid, [b'echo "<$(stty size)>"\n'])
        await shows(terminal, shown, b"<40 100>")
        await got(terminal.disconnect())
        again = await got(pty.connect(terminal.pid, **handlers))
        await got(pty.send_stdin(terminal.pid, b'echo "<$((6 * 7))>"; exit 7\n'))
        await shows(again, shown, b"<42>")
        assert (await fails(again.wait, e2b.CommandExitException)).exit_code == 7
        doomed = await got(pty.create(size, **({"on_data": shown.append} if is_async else {})))
        assert await got(pty.kill(doomed.pid)) is True
        await fails(doomed.wait, e2b.CommandExitException)
        assert await got(pty.kill(doomed.pid)) is False

    async def shows(terminal: typing.Any, shown: list[bytes], part: bytes) -> None:
        """Waits until the terminal shows the part. A handle that blocks gives its output while somebody iterates over it."""
        if is_async:
            await until(lambda: part in b"".join(shown), f"the terminal shows {part!r}: {shown}")
            return
        while part not in b"".join(shown):
            _, _, data = next(iter(terminal))
            shown.append(data)

    async def files_are_written_and_read() -> None:
        written = await got(files.write("notes/a.txt", "ä text"))
        assert (written.name, written.path) == ("a.txt", "/home/user/notes/a.txt"), written
        assert await got(files.read("notes/a.txt")) == "ä text"
        data = bytes(index % 251 for index in range(300_000))
        for options in ({}, {"use_octet_stream": True}, {"gzip": True}):
            await got(files.write("/home/user/bytes", data, **options))
            assert await got(files.read("/home/user/bytes", format="bytes")) == data
        await got(files.write("stream", io.BytesIO(data)))
        stream = await got(files.read("stream", format="stream", gzip=True))
        pieces = [each async for each in stream] if is_async else list(stream)
        assert b"".join(pieces) == data
        await got(files.write("empty", ""))
        assert await got(files.read("empty")) == ""
        many = [{"path": f"many/{index}", "data": str(index)} for index in range(30)]
        assert len(await got(files.write_files(many))) == 30
        assert await got(files.read("many/29")) == "29"
        await got(files.write("marked", "x", metadata={"Author": "ada", "topic": "a b"}))
        assert (await got(files.get_info("marked"))).metadata == {"author": "ada", "topic": "a b"}
        await got(files.write("/root/of-root", "x", user="root"))
        assert (await got(files.get_info("/root/of-root", user="root"))).owner == "root"
        await fails(lambda: files.read("/nowhere"), e2b.FileNotFoundException)
        # As at E2B, a file belongs to the user of the request, who may write it anywhere.
        await got(files.write("/etc/of-user", "x"))
        assert (await got(files.get_info("/etc/of-user"))).owner == "user"
        await fails(lambda: files.read("/home/user"), e2b.InvalidArgumentException)

    async def files_are_listed() -> None:
        assert await got(files.make_dir("tree/deep/er")) is True
        assert await got(files.make_dir("tree/deep")) is False
        await got(files.write("tree/one", "1"))
        await got(files.write("tree/deep/two", "22"))
        await got(commands.run("ln -s one tree/link && chmod 640 tree/one"))

        async def names(depth: int) -> list[str]:
            found = await got(files.list("tree", depth=depth))
            return sorted(each.path.removeprefix("/home/user/tree/") for each in found)

        assert await names(1) == ["deep", "link", "one"]
        assert await names(2) == ["deep", "deep/er", "deep/two", "link", "one"]
        one = await got(files.get_info("tree/one"))
        assert (one.type, one.size, one.mode, one.permissions) == (e2b.FileType.FILE, 1, 0o640, "-rw-r-----"), one
        assert (one.owner, one.group) == ("user", "user"), one
        assert abs(one.modified_time.timestamp() - time.time()) < 60, one
        assert (await got(files.get_info("tree/link"))).symlink_target == "/home/user/tree/one"
        assert (await got(files.rename("tree/one", "tree/first"))).path == "/home/user/tree/first"
        assert [await got(files.exists(f"tree/{name}")) for name in ("one", "first")] == [False, True]
        await got(files.remove("tree"))
        assert await got(files.exists("tree")) is False
        await fails(lambda: files.get_info("tree"), e2b.FileNotFoundException)
        await fails(lambda: files.list("tree"), e2b.NotFoundException)

    async def files_are_watched() -> None:
        await got(files.make_dir("watched/below"))
        events: list[e2b.FilesystemEvent] = []
        handlers = {"on_event": events.append} if is_async else {}
        watcher = await got(files.watch_dir("watched", recursive=True, include_entry=True, **handlers))
        kinds = e2b.FilesystemEventType

        async def sees(kind: e2b.FilesystemEventType, name: str) -> None:
            def seen() -> bool:
                if not is_async:
                    events.extend(watcher.get_new_events())
                return any(each.type == kind and each.name == name for each in events)

            await until(seen, f"{kind} of {name}: {events}")

        await got(files.write("watched/below/new", "abc"))
        await sees(kinds.CREATE, "below/new")
        await got(files.write("watched/below/new", "abcdef"))
        await sees(kinds.WRITE, "below/new")
        assert any(each.entry and each.entry.path == "/home/user/watched/below/new" for each in events), events
        await got(files.rename("watched/below/new", "watched/moved"))
        await sees(kinds.RENAME, "below/new")
        await sees(kinds.CREATE, "moved")
        await got(files.remove("watched/moved"))
        await sees(kinds.REMOVE, "moved")
        await got(watcher.stop())
        nowhere = {"on_event": events.append} if is_async else {}
        await fails(lambda: files.watch_dir("nowhere", **nowhere), e2b.NotFoundException)

    async def urls_of_files() -> None:
        # E2B_SANDBOX_URL names no sandbox, so the headers do.
        headers = {"E2b-Sandbox-Id": shared.sandbox_id, "E2b-Sandbox-Port": "49983"}
        upload = shared.upload_url("by-url", use_signature_expiration=60)
        form = "--x\r\ncontent-disposition: form-data; name=file; filename=by-url\r\n\r\nthrough a URL\r\n--x--\r\n"
        sent = {**headers, "content-type": "multipart/form-data; boundary=x"}
        assert (await asyncio.to_thread(fetch, upload, sent, form.encode()))[0] == 200
        url = shared.download_url("by-url")
        assert await asyncio.to_thread(fetch, url, headers) == (200, "through a URL")
        other = url.replace("path=by-url", "path=.bashrc")
        assert (await asyncio.to_thread(fetch, other, headers))[0] == 401
        expired = shared.download_url("by-url", use_signature_expiration=-60)
        assert (await asyncio.to_thread(fetch, expired, headers))[0] == 401

    async def ports_are_public() -> None:
        server = await got(
            commands.run("echo served >index.html; exec python3 -m http.server 3001", background=True, cwd="/tmp")
        )
        host = shared.get_host(3001)
        assert host.startswith(f"3001-{shared.sandbox_id}.") and host.endswith(f":{gateway.port}"), host

        async def answers() -> bool:
            return await asyncio.to_thread(fetch, gateway.geturl(), {"Host": host}) == (200, "served\n")

        await until(answers, "the server answers")
        await got(server.kill())

    async def git_works() -> None:
        home = "/home/user/git"
        work = f"{home}/work"
        await got(files.make_dir(home))
        await got(git.init(f"{home}/origin", bare=True, initial_branch="main"))
        await got(git.configure_user("Ada", "ada@example.com"))
        assert await got(git.get_config("user.email")) == "ada@example.com"
        await got(git.clone(f"file://{home}/origin", path=work))
        await got(git.set_config("core.abbrev", "12", scope="local", path=work))
        assert await got(git.get_config("core.abbrev", scope="local", path=work)) == "12"
        await got(git.remote_add(work, "second", f"file://{home}/second"))
        assert await got(git.remote_get(work, "second")) == f"file://{home}/second"
        assert await got(git.remote_get(work, "third")) is None
        await got(files.write(f"{work}/a", "1"))
        assert (await got(git.status(work))).has_untracked
        await got(git.add(work))
        assert (await got(git.status(work))).staged_count == 1
        await got(git.commit(work, "first", author_name="Grace", author_email="grace@example.com"))
        await got(git.push(work, remote="origin", branch="main"))
        await got(git.create_branch(work, "side"))
        assert (await got(git.branches(work))).current_branch == "side"
        await got(git.checkout_branch(work, "main"))
        await got(git.delete_branch(work, "side", force=True))
        assert (await got(git.branches(work))).branches == ["main"]
        await got(files.write(f"{work}/a", "2"))
        await got(git.restore(work, ["a"]))
        assert await got(files.read(f"{work}/a")) == "1"
        await got(files.write(f"{work}/b", "b"))
        await got(git.add(work, files=["b"]))
        await got(git.reset(work, mode="hard"))
        assert (await got(git.status(work))).is_clean
        await got(git.pull(work))
        await got(git.dangerously_authenticate("ada", "secret word", host="git.example.com"))
        await fails(lambda: git.clone(f"file://{home}/nowhere"), e2b.CommandExitException)

    async def templates_are_found() -> None:
        names = ("base", "code-interpreter-v1", "no-such-template")
        assert [await got(Template.exists(name)) for name in names] == [True, True, False]
        assert await got(Template.alias_exists("base")) is True

    async def clients_have_their_own_settings() -> None:
        key = os.environ["E2B_API_KEY"]
        client = e2b.E2B(api_key=key, api_url=os.environ["E2B_API_URL"])
        own: typing.Any = client.AsyncSandbox if is_async else client.Sandbox
        assert (await got(own.get_info(shared.sandbox_id))).sandbox_id == shared.sandbox_id
        wrong = f"e2b_{b'spk_wrong'.hex()}"
        await fails(lambda: Sandbox.get_info(shared.sandbox_id, api_key=wrong), e2b.AuthenticationException)
        unknown = "sbx-00000000-0000-4000-8000-000000000000"
        await fails(lambda: Sandbox.get_info(unknown), e2b.NotFoundException)
        await fails(lambda: Sandbox.create("no-such-template"), e2b.SandboxException, "no such template")

    async def refusals() -> None:
        """What cannot be done is refused with a sentence that says so."""
        base = e2b.SandboxException

        async def refused(call: typing.Callable[[], typing.Any], kind: type[Exception] = base) -> None:
            await fails(call, kind, "not supported|must be true")

        network: typing.Any = {"deny_out": ["1.1.1.1"]}
        token = Secret.iam_token(audience="a", token_type="JWT-SVID")
        await refused(lambda: Sandbox.create(lifecycle={"on_timeout": "pause", "auto_resume": True}))
        await refused(lambda: Sandbox.create(network=network))
        await refused(lambda: Sandbox.create(volume_mounts={"/data": "a-volume"}))
        await refused(lambda: Sandbox.create(iam={"tokens": {"aws": token}}))
        await refused(lambda: Sandbox.create(mcp={"browserbase": {"apiKey": "x"}}))
        await refused(lambda: shared.pause(keep_memory=False))
        for target in (shared, None):
            bound = [] if target else [shared.sandbox_id]
            owner = target or Sandbox
            await refused(lambda: owner.update_network(*bound, network))
            await refused(lambda: owner.fork(*bound))
            await refused(lambda: owner.create_snapshot(*bound))
            await refused(lambda: owner.list_snapshots().next_items())
        # There are no snapshots.
        assert await got(Sandbox.delete_snapshot("a-snapshot:latest")) is False
        await fails(shared.get_mcp_token, e2b.FileNotFoundException)
        template = Template().from_image("debian:12")
        status = e2b.BuildInfo(alias="a", name="a", template_id="a", build_id="b")
        await refused(lambda: Template.build(template, "built"), e2b.BuildException)
        await refused(lambda: Template.build_in_background(template, "built"), e2b.BuildException)
        await refused(lambda: Template.get_build_status(status), e2b.BuildException)
        await refused(lambda: Template.assign_tags("base:default", ["mine"]))
        await refused(lambda: Template.remove_tags("base", ["mine"]))
        await refused(lambda: Template.get_tags("base"))
        for call in (Volume.create, Volume.connect, Volume.get_info, Volume.destroy):
            await refused(lambda: call("a-volume"), e2b.VolumeException)
        await refused(Volume.list, e2b.VolumeException)
        for write in (Secret.create, Secret.update):
            await refused(lambda: write("name", "value"), e2b.SecretException)
        for ask in (Secret.get_info, Secret.exists, Secret.destroy):
            await refused(lambda: ask("name"), e2b.SecretException)
        await refused(lambda: Secret.list().next_items(), e2b.SecretException)
        assert (await got(shared.get_info())).state == e2b.SandboxState.RUNNING

    parts = [sandboxes, lists, commands_run, commands_continue, terminals, files_are_written_and_read, files_are_listed]
    parts += [files_are_watched, urls_of_files, ports_are_public, git_works, templates_are_found]
    parts += [clients_have_their_own_settings, refusals, metrics_are_told]
    await run_parts(parts, called.names, at_once=is_async)
    await got(shared.kill())


asyncio.run(main())
