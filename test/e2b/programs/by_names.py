"""Reaches a sandbox by the names of its ports, with TLS. The variables have only E2B_DOMAIN and E2B_API_KEY, and the platform's
certificate authority: `by_names.py sync` or `by_names.py async`."""

import asyncio
import inspect
import os
import sys
import typing
import urllib.request

import e2b_code_interpreter as e2b
from parts import run_parts

is_async = sys.argv[1] == "async"
Sandbox: typing.Any = e2b.AsyncSandbox if is_async else e2b.Sandbox


async def got(result: typing.Any) -> typing.Any:
    return await result if inspect.isawaitable(result) else result


async def a_sandbox_is_used() -> None:
    sandbox = await got(Sandbox.create())
    assert (await got(sandbox.commands.run("echo by name"))).stdout == "by name\n"
    await got(sandbox.files.write("a.txt", "text"))
    assert await got(sandbox.files.read("a.txt")) == "text"
    assert (await got(sandbox.run_code("6 * 7"))).text == "42"
    url = sandbox.download_url("a.txt", use_signature_expiration=60)
    assert url.startswith(f"https://49983-{sandbox.sandbox_id}.{os.environ['E2B_DOMAIN']}/files?"), url
    reply = await asyncio.to_thread(urllib.request.urlopen, url)
    assert reply.read() == b"text"
    await got(sandbox.kill())


asyncio.run(run_parts([a_sandbox_is_used], [], at_once=is_async))
