"""Copies folders of a hostile sandbox; `sync` or `async`, the sandbox, the folder, and how many. Prints the outcomes."""

import asyncio
import inspect
import json
import sys
from typing import Any

from sandbox_platform import AsyncSandbox, Sandbox, SandboxError

KIND, SANDBOX, FOLDER, COUNT = sys.argv[1:]
Client: Any = AsyncSandbox if KIND == "async" else Sandbox


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def outcome(work: Any) -> Any:
    try:
        await done(work())
    except SandboxError as error:
        return [error.code, str(error)]
    except OSError as error:
        return [None, str(error)]
    return ["copied", ""]


async def main() -> None:
    sandbox = await done(Client.get(SANDBOX))
    outcomes = []
    for number in range(int(COUNT)):
        target = f"{FOLDER}/{number}/work"
        outcomes.append(await outcome(lambda: sandbox.files.download_folder(f"/{number}", target)))
    outcomes.append(await outcome(lambda: sandbox.files.download("/report", f"{FOLDER}/report")))
    outcomes.append(await outcome(lambda: sandbox.files.stat("/endless")))
    outcomes.append(await outcome(lambda: sandbox.files.upload_folder(f"{FOLDER}/0/beside", "/endless")))
    print(json.dumps(outcomes))
    await done(sandbox.close())


asyncio.run(main())
