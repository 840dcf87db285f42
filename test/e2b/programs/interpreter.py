"""Calls every method of the code interpreter, through the installed version of the Python package e2b-code-interpreter:
`interpreter.py sync` with the classes that block, `interpreter.py async` with those of asyncio."""

import asyncio
import base64
import inspect
import json
import sys
import typing

import e2b_code_interpreter as e2b
from called_methods import CalledMethods
from parts import run_parts

is_async = sys.argv[1] == "async"
Sandbox: typing.Any = e2b.AsyncSandbox if is_async else e2b.Sandbox
called = CalledMethods(__file__)


async def got(result: typing.Any) -> typing.Any:
    """The result of a method, which is an awaitable of the classes of asyncio."""
    return await result if inspect.isawaitable(result) else result


async def fails(call: typing.Callable[[], typing.Any], kind: type[Exception], message: str = "") -> None:
    try:
        result = await got(call())
    except kind as error:
        assert message in str(error), error
        return
    raise AssertionError(f"It should fail with {kind.__name__}, and gave {result}")


async def main() -> None:
    called.begin()
    sandbox = await got(Sandbox.create(timeout=600, envs={"GREETING": "hello"}))

    async def python_runs() -> None:
        heard: list[str] = []
        execution = await got(
            sandbox.run_code(
                "import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nx = 20\nx + 1",
                on_stdout=lambda message: heard.append(f"{message.line.strip()} {message.error}"),
                on_stderr=lambda message: heard.append(f"{message.line.strip()} {message.error}"),
                on_result=lambda result: heard.append(f"{result.text} {result.is_main_result}"),
            )
        )
        assert execution.text == "21" and execution.error is None, execution
        assert ("".join(execution.logs.stdout), "".join(execution.logs.stderr)) == ("out\n", "err\n"), execution
        assert sorted(heard) == ["21 True", "err True", "out False"], heard
        code = 'x + 2, os.environ["MARK"], os.environ["GREETING"], os.getcwd()'
        following = await got(sandbox.run_code(code, envs={"MARK": "mine"}))
        assert following.text == "(22, 'mine', 'hello', '/home/user')", following
        assert following.execution_count > execution.execution_count

    async def errors_are_told() -> None:
        context = await got(sandbox.create_code_context())
        told: list[str] = []
        failed = await got(
            sandbox.run_code("1 / 0", context=context, on_error=lambda error: told.append(error.name))
        )
        assert (failed.error.name, failed.error.value, told) == ("ZeroDivisionError", "division by zero", ["ZeroDivisionError"])
        assert "1 / 0" in failed.error.traceback, failed
        await fails(lambda: sandbox.run_code("while True: pass", context=context, timeout=0.7), e2b.TimeoutException)
        await got(sandbox.restart_code_context(context))
        assert (await got(sandbox.run_code("1 + 1", context=context))).text == "2"

    async def results_have_formats() -> None:
        context = await got(sandbox.create_code_context(language="python", cwd="/tmp"))
        assert (context.language, context.cwd) == ("python", "/tmp"), context
        code = 'import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})'
        execution = await got(sandbox.run_code(code, context=context))
        table = execution.results[0]
        assert {"text", "html", "data"} <= set(table.formats()) and "<table" in table.html, table
        assert table.data == {"a": [1, 2], "b": ["x", "y"]}, table.data
        assert json.loads(execution.to_json())["results"], execution
        await got(sandbox.remove_code_context(context))

    async def charts_have_data() -> None:
        context = await got(sandbox.create_code_context())

        async def plot(*lines: str) -> typing.Any:
            code = "\n".join(["import matplotlib.pyplot as plt", "plt.title('T')", *lines, "plt.show()"])
            execution = await got(sandbox.run_code(code, context=context))
            assert execution.error is None, execution
            assert base64.b64decode(execution.results[0].png)[1:4] == b"PNG"
            return execution.results[0].chart

        bar = await plot("plt.bar(['a', 'b'], [3, 4])")
        assert (bar.type.value, bar.title) == ("bar", "T")
        assert [(each.label, float(each.value)) for each in bar.elements] == [("a", 3.0), ("b", 4.0)]
        line = await plot("plt.plot([1, 2, 3], [2, 4, 6], label='first')")
        assert (line.type.value, line.elements[0].label) == ("line", "first")
        assert [tuple(point) for point in line.elements[0].points] == [(1, 2), (2, 4), (3, 6)]
        assert (await plot("plt.scatter([1, 2], [5, 6])")).type.value == "scatter"
        pie = await plot("plt.pie([1, 3], labels=['a', 'b'])")
        assert [(each.label, round(each.angle)) for each in pie.elements] == [("a", 90), ("b", 270)]
        box = await plot("plt.boxplot([1, 2, 3, 4, 100])")
        assert (box.elements[0].median, box.elements[0].outliers) == (3, [100])

    async def languages_run() -> None:
        script = await got(sandbox.run_code("const x: number = 41; x + 1", language="typescript"))
        assert script.text == "42", script
        shell = await got(sandbox.run_code("echo $((6 * 7))", language="bash"))
        assert "".join(shell.logs.stdout) == "42\n", shell
        await fails(lambda: sandbox.run_code("1", language="cobol"), Exception, "cobol")

    async def contexts_are_listed() -> None:
        made = [await got(sandbox.create_code_context()), await got(sandbox.create_code_context(language="bash"))]
        listed = [each.id for each in await got(sandbox.list_code_contexts())]
        assert all(each.id in listed for each in made), listed
        await got(sandbox.remove_code_context(made[0]))
        await got(sandbox.remove_code_context(made[1].id))
        listed = [each.id for each in await got(sandbox.list_code_contexts())]
        assert not any(each.id in listed for each in made), listed
        await fails(lambda: sandbox.run_code("1", context=made[0]), e2b.NotFoundException)

    parts = [python_runs, errors_are_told, results_have_formats, charts_have_data, languages_run, contexts_are_listed]
    await run_parts(parts, called.names, at_once=is_async)
    await got(sandbox.kill())


asyncio.run(main())
