import type { CommandHandle, Execution, Sandbox } from '@sandbox-platform/client';
import { tool } from 'ai';
import { z } from 'zod';

/** What a model reads of one output or file, in characters. */
const maxTextLength = 30_000;
/** A background command answers after this time if it has not ended. */
const firstOutputMs = 1000;

const path = z.string().min(1).max(4096).describe('Absolute, or relative to the home folder');
const seconds = z.number().int().min(1).max(3600);
const pid = z.number().int().min(1).describe('As run_command gave it with background');

/** Tools of the AI SDK that work in one sandbox. They have the names of the tools of the platform's MCP server. */
export function sandboxTools(sandbox: Sandbox) {
  const { commands, files, ports } = sandbox;
  return {
    run_command: tool({
      description:
        'Runs a shell command in an isolated Linux sandbox, as root. Start servers with background, not with `&`; then ' +
        'the answer has a pid for read_output and kill_process.',
      inputSchema: z.object({
        command: z.string().min(1),
        cwd: path.optional(),
        stdin: z.string().optional(),
        timeout_seconds: seconds.default(120).describe('The command is killed after that; not with background'),
        background: z.boolean().default(false),
      }),
      execute: async ({ command, cwd, stdin, timeout_seconds, background }, { abortSignal }) => {
        const options = { cwd, stdin, maxOutputLength: maxTextLength };
        if (background) {
          const leaveAfterMs = firstOutputMs;
          return outputOf(await commands.run(command, { ...options, background, leaveAfterMs }));
        }
        const timeoutMs = timeout_seconds * 1000;
        const { exitCode, ...output } = await commands.run(command, { ...options, timeoutMs, signal: abortSignal });
        return { exit_code: exitCode, ...output };
      },
    }),

    read_output: tool({
      description: 'The output of a background command since the last read, and its exit code if it has ended.',
      inputSchema: z.object({ pid, wait_seconds: z.number().min(0).max(60).default(1) }),
      execute: async ({ pid, wait_seconds }) => {
        const leaveAfterMs = wait_seconds * 1000;
        return outputOf(await commands.connect(pid, { maxOutputLength: maxTextLength, leaveAfterMs }));
      },
    }),

    kill_process: tool({
      description: 'Ends a background command and its children.',
      inputSchema: z.object({ pid }),
      execute: async ({ pid }) => ({ was_running: await commands.kill(pid) }),
    }),

    run_code: tool({
      description:
        'Runs code in a context that keeps its variables. Answers with the last value, the output and plots.',
      inputSchema: z.object({
        code: z.string(),
        language: z.enum(['python', 'javascript', 'typescript', 'bash', 'r', 'java']).default('python'),
        timeout_seconds: seconds.default(120),
      }),
      execute: ({ code, language, timeout_seconds }, { abortSignal }) => {
        const limits = { timeoutMs: timeout_seconds * 1000, signal: abortSignal, maxOutputLength: maxTextLength };
        return sandbox.runCode(code, { language, ...limits, maxResultsLength: 4 * 1024 * 1024 });
      },
      toModelOutput: ({ output }) => ({
        type: 'content',
        value: [{ type: 'text', text: textOf(output) }, ...picturesOf(output)],
      }),
    }),

    read_file: tool({
      description: `Reads a text file, up to ${maxTextLength} characters.`,
      inputSchema: z.object({ path }),
      execute: async ({ path }) => {
        const decoder = new TextDecoder();
        let text = '';
        for await (const bytes of files.readStream(path)) {
          text += decoder.decode(bytes, { stream: true });
          if (text.length > maxTextLength) break;
        }
        return { text: text.slice(0, maxTextLength), truncated: text.length > maxTextLength };
      },
    }),

    write_file: tool({
      description: 'Writes a text file, and makes missing folders.',
      inputSchema: z.object({ path, text: z.string() }),
      execute: async ({ path, text }) => {
        await files.write(path, text);
        return { written_bytes: Buffer.byteLength(text) };
      },
    }),

    list_files: tool({
      description: 'The entries of a folder, at most 1000.',
      inputSchema: z.object({ path }),
      execute: async ({ path }) => {
        const entries = await files.list(path);
        const shown = entries.slice(0, 1000).map(({ name, type, size }) => ({ name, type, size }));
        return { entries: shown, truncated: entries.length > shown.length };
      },
    }),

    open_port: tool({
      description: 'Waits until a server listens on a port of the sandbox, and answers with a link for a browser.',
      inputSchema: z.object({ port: z.number().int().min(1).max(65_535), wait_seconds: seconds.default(10) }),
      execute: async ({ port, wait_seconds }, { abortSignal }) => {
        await ports.waitFor(port, { timeoutMs: wait_seconds * 1000, signal: abortSignal });
        return { url: ports.url(port, { signed: 'write' }) };
      },
    }),
  };
}

/** The output until the command ends or the client leaves it. */
async function outputOf(running: CommandHandle) {
  const isLeft = await running.wait().then(
    () => false,
    (error) => {
      if (error.code === 'disconnected') return true;
      throw error;
    },
  );
  const { pid, exitCode, stdout, stderr } = running;
  return { pid, is_running: isLeft, exit_code: exitCode, stdout, stderr };
}

function textOf({ text, stdout, stderr, error, truncated }: Execution): string {
  const shownError = error && { name: error.name, value: error.value, traceback: error.traceback };
  return JSON.stringify({ text: text?.slice(0, maxTextLength), stdout, stderr, error: shownError, truncated });
}

const picturesOf = ({ results }: Execution) =>
  results
    .filter(({ png }) => png !== undefined)
    .map(({ png }) => ({ type: 'file' as const, data: { type: 'data' as const, data: png! }, mediaType: 'image/png' }));
