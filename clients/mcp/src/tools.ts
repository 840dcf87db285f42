import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import {
  type CodeResult,
  type CommandHandle,
  type ConnectionOptions,
  type Files,
  Sandbox,
  SandboxError,
} from '../../typescript/src/index.ts';
import manifest from '../package.json' with { type: 'json' };

/** The maximum length of one output. A model would not read more. */
const maxTextLength = 64 * 1024;
const maxPictures = 8;
const defaultTimeoutSeconds = 120;
/** Limits of one tool call: the server works for several callers, and root in a sandbox can send any bytes. */
const maxReplyBytes = 16 * 1024 * 1024;
const maxFileBytes = 3 * 1024 * 1024;
/** How long the output of a background command is awaited, so that its first error is seen at once. */
const firstOutputMs = 500;
/** How long open_port waits for a server. */
const listenMs = 2000;
const replyMs = 60_000;

const sandboxId = z
  .string()
  .regex(/^sbx-[a-z0-9-]+$/)
  .describe('As create_sandbox or list_sandboxes gave it');
const path = z.string().min(1).max(4096).describe('Absolute, or relative to the home folder');
// Models write numbers as texts, too.
const seconds = z.coerce.number().int().min(1).max(3600);
const pid = z.coerce.number().int().min(1).describe('As run_command gave it with background');
/** The names that models use for the languages of code contexts. */
const languages: Record<string, string | undefined> = {
  ...{
    python: 'python',
    python3: 'python',
    py: 'python',
    ipython: 'python',
    javascript: 'javascript',
    js: 'javascript',
  },
  ...{ node: 'javascript', nodejs: 'javascript', typescript: 'typescript', ts: 'typescript', bash: 'bash', sh: 'bash' },
  ...{ shell: 'bash', r: 'r', java: 'java' },
};
const language = z
  .string()
  .transform((name) => languages[name.toLowerCase()] ?? name)
  .pipe(z.enum(['python', 'javascript', 'typescript', 'bash', 'r', 'java']));

/** An MCP server whose tools work on the sandboxes of one caller. */
export function createMcpServer(connection: ConnectionOptions): McpServer {
  const server = new McpServer(
    { name: 'sandbox-platform', version: manifest.version },
    {
      instructions:
        'Isolated Linux sandboxes. Make one with create_sandbox, work in it with its id, end it with terminate_sandbox. ' +
        'It ends by itself after its timeout. Start servers with run_command and background, not with `&`, and read them ' +
        'with read_output. A file is also a resource: sandbox://<sandbox_id>/<absolute path>.',
    },
  );
  /** @param seconds the time limit of the work in the sandbox; its replies have an additional time limit */
  const open = (id: string, signal: AbortSignal, seconds = 0) => {
    const limit = AbortSignal.timeout(seconds * 1000 + replyMs);
    return Sandbox.connect(id, {
      ...connection,
      agentLimits: { maxReplyBytes, signal: AbortSignal.any([signal, limit]) },
    });
  };

  server.registerTool(
    'create_sandbox',
    {
      title: 'Create a sandbox',
      description:
        'Makes a Linux sandbox and answers with its id. The template `base` has a shell, Python 3, git, curl and apt-get, ' +
        'and no Node; `code-interpreter` has also Node, pandas and matplotlib, and Python for run_code.',
      inputSchema: {
        template: z
          .string()
          .max(128)
          .default('base')
          .describe('An id, a name, or `<user name>/<name>` for one of a colleague'),
        timeout_seconds: z.coerce.number().int().min(60).default(900).describe('It ends after that'),
        env: z.record(z.string(), z.string()).default({}).describe('Environment variables'),
      },
    },
    ({ template, timeout_seconds: timeoutSeconds, env }) =>
      answer(async () => {
        const sandbox = await Sandbox.create({ ...connection, template, timeoutSeconds, envs: env });
        return json({ sandbox_id: sandbox.id, template, timeout_seconds: timeoutSeconds });
      }),
  );

  server.registerTool(
    'list_sandboxes',
    {
      title: 'List sandboxes',
      description: 'The sandboxes that run or are paused, 100 at most.',
      inputSchema: {},
      annotations: { readOnlyHint: true },
    },
    () =>
      answer(async () => {
        const found = [];
        for await (const each of Sandbox.list({ ...connection, status: 'running,paused' })) {
          found.push({
            sandbox_id: each.sandbox_id,
            name: each.name,
            template: each.template_name,
            status: each.status,
          });
          if (found.length === 100) break;
        }
        return json(found);
      }),
  );

  server.registerTool(
    'run_command',
    {
      title: 'Run a command',
      description:
        'Runs a line in the shell of a sandbox; answers with exit code, stdout and stderr. Each call is a new shell: ' +
        '`cd` and variables do not last, so give cwd.',
      inputSchema: {
        sandbox_id: sandboxId,
        command: z
          .union([z.string().min(1).max(100_000), z.array(z.string().max(100_000)).min(1).max(1000)])
          .describe('A line for the shell, or a program with its arguments'),
        cwd: path.optional(),
        stdin: z.string().max(1_000_000).optional(),
        timeout_seconds: seconds.default(defaultTimeoutSeconds).describe('Then it is killed'),
        background: z
          .boolean()
          .default(false)
          .describe('For servers: answer after half a second with the pid and the first output'),
      },
      annotations: { destructiveHint: true },
    },
    ({ sandbox_id, command, cwd, stdin, timeout_seconds, background }, { signal }) =>
      answer(async () => {
        const { commands } = await open(sandbox_id, signal, timeout_seconds);
        const options = { ...(cwd !== undefined && { cwd }), ...(stdin !== undefined && { stdin }) };
        if (background) {
          const limits = { background: true as const, maxOutputLength: maxTextLength, leaveAfterMs: firstOutputMs };
          return follow(await commands.run(command, { ...options, ...limits }));
        }
        const limits = { timeoutMs: timeout_seconds * 1000, maxOutputLength: maxTextLength, signal };
        const { exitCode, stdout, stderr, truncated } = await commands.run(command, { ...options, ...limits });
        return json({ exit_code: exitCode, stdout, stderr, ...(truncated && { truncated }) });
      }),
  );

  server.registerTool(
    'read_output',
    {
      title: 'Read the output of a background command',
      description:
        'The output since the last read, and the exit code if the command has ended. Waits a little for new output.',
      inputSchema: { sandbox_id: sandboxId, pid, wait_seconds: z.coerce.number().min(0).max(60).default(1) },
    },
    ({ sandbox_id, pid, wait_seconds }, { signal }) =>
      answer(async () => {
        const { commands } = await open(sandbox_id, signal, wait_seconds);
        const limits = { maxOutputLength: maxTextLength, leaveAfterMs: wait_seconds * 1000 };
        return follow(await commands.connect(pid, limits));
      }),
  );

  server.registerTool(
    'wait_process',
    {
      title: 'Wait for a background command',
      description:
        'Waits for the end of a background command. Answers with its exit code and its output since the last read.',
      inputSchema: {
        sandbox_id: sandboxId,
        pid,
        timeout_seconds: seconds.default(defaultTimeoutSeconds).describe('Then it answers, and the command goes on'),
      },
    },
    ({ sandbox_id, pid, timeout_seconds }, { signal }) =>
      answer(async () => {
        const { commands } = await open(sandbox_id, signal, timeout_seconds);
        const limits = { maxOutputLength: maxTextLength, leaveAfterMs: timeout_seconds * 1000 };
        return follow(await commands.connect(pid, limits));
      }),
  );

  server.registerTool(
    'kill_process',
    {
      title: 'Kill a background command',
      description: 'Ends a background command and the processes that it has started.',
      inputSchema: { sandbox_id: sandboxId, pid },
      annotations: { destructiveHint: true, idempotentHint: true },
    },
    ({ sandbox_id, pid }, { signal }) =>
      answer(async () => json({ pid, killed: await (await open(sandbox_id, signal)).commands.kill(pid) })),
  );

  server.registerTool(
    'run_code',
    {
      title: 'Run code',
      description:
        'Runs code in a context of the sandbox that keeps its variables between calls. Answers with output, values, ' +
        'and plots as images. Python needs the template `code-interpreter`; JavaScript, TypeScript and Bash run in each.',
      inputSchema: {
        sandbox_id: sandboxId,
        code: z.string().min(1).max(1_000_000),
        language: language.default('python').describe('python, javascript, typescript, bash, r or java'),
        timeout_seconds: seconds.default(defaultTimeoutSeconds).describe('Then it is interrupted'),
      },
      annotations: { destructiveHint: true },
    },
    ({ sandbox_id, code, language, timeout_seconds }, { signal }) =>
      answer(async () => {
        const sandbox = await open(sandbox_id, signal, timeout_seconds);
        const timeoutMs = timeout_seconds * 1000;
        const bounds = { maxOutputLength: maxTextLength, maxResultsLength: maxReplyBytes };
        const execution = await sandbox.runCode(code, { language, signal, timeoutMs, ...bounds });
        const { stdout, stderr, results, error, truncated } = execution;
        const texts = results.map(chooseText).filter((text) => text !== null);
        return {
          content: [
            ...jsonContent({
              ...(stdout && { stdout }),
              ...(stderr && { stderr }),
              ...(truncated && { truncated }),
              ...(texts.length > 0 && { results: texts }),
              ...(error && {
                error: { name: cut(error.name), value: cut(error.value), traceback: cut(error.traceback) },
              }),
            }),
            ...results.flatMap(toImages).slice(0, maxPictures),
          ],
          ...(error && { isError: true }),
        };
      }),
  );

  server.registerTool(
    'read_file',
    {
      title: 'Read a file',
      description: `A text file of a sandbox, of at most ${maxTextLength} characters; pictures come as images.`,
      inputSchema: { sandbox_id: sandboxId, path },
      annotations: { readOnlyHint: true },
    },
    ({ sandbox_id, path }, { signal }) =>
      answer(async () => {
        const mimeType = pictureTypes[/\.[a-z]+$/i.exec(path)?.[0].toLowerCase() ?? ''];
        const maxBytes = mimeType ? maxFileBytes : 4 * maxTextLength;
        const bytes = await readLimited((await open(sandbox_id, signal)).files, path, maxBytes);
        if (mimeType) return { content: [{ type: 'image' as const, data: bytes.toString('base64'), mimeType }] };
        return { content: [{ type: 'text' as const, text: cut(bytes.toString('utf8')) }] };
      }),
  );

  server.registerTool(
    'write_file',
    {
      title: 'Write a file',
      description: 'Writes a text file in a sandbox; folders on the way are made.',
      inputSchema: { sandbox_id: sandboxId, path, content: z.string().max(4_000_000) },
      annotations: { destructiveHint: true, idempotentHint: true },
    },
    ({ sandbox_id, path, content }, { signal }) =>
      answer(async () => {
        await (await open(sandbox_id, signal)).files.write(path, content);
        return json({ path, bytes: Buffer.byteLength(content) });
      }),
  );

  server.registerTool(
    'upload_file',
    {
      title: 'Upload a binary file',
      description: 'Writes a file in a sandbox from base64; folders on the way are made. For text use write_file.',
      inputSchema: {
        sandbox_id: sandboxId,
        path,
        content_base64: z.base64().max((maxFileBytes * 4) / 3 + 4),
      },
      annotations: { destructiveHint: true, idempotentHint: true },
    },
    ({ sandbox_id, path, content_base64 }, { signal }) =>
      answer(async () => {
        const content = Buffer.from(content_base64, 'base64');
        await (await open(sandbox_id, signal)).files.write(path, content);
        return json({ path, bytes: content.length });
      }),
  );

  server.registerResource(
    'file',
    new ResourceTemplate('sandbox://{sandbox_id}/{+path}', { list: undefined }),
    { title: 'File of a sandbox', description: `A file of at most ${maxFileBytes} bytes` },
    async (uri, { sandbox_id, path }, { signal }) => {
      const absolute = `/${decodeURIComponent(String(path)).replace(/^\/+/, '')}`;
      const { files } = await open(sandboxId.parse(String(sandbox_id)), signal);
      const bytes = await readLimited(files, absolute, maxFileBytes);
      const text = bytes.toString('utf8');
      const isText = Buffer.from(text).equals(bytes);
      return { contents: [{ uri: uri.href, ...(isText ? { text } : { blob: bytes.toString('base64') }) }] };
    },
  );

  server.registerTool(
    'list_files',
    {
      title: 'List files',
      description: 'What is in a folder of a sandbox, 1000 entries at most.',
      inputSchema: { sandbox_id: sandboxId, path, depth: z.coerce.number().int().min(1).max(20).default(1) },
      annotations: { readOnlyHint: true },
    },
    ({ sandbox_id, path, depth }, { signal }) =>
      answer(async () => {
        const entries = await (await open(sandbox_id, signal)).files.list(path, { depth });
        const shown = entries.slice(0, 1000).map(({ path, type, size }) => ({ path, type, size }));
        return json({ entries: shown, ...(entries.length > 1000 && { left_out: entries.length - 1000 }) });
      }),
  );

  server.registerTool(
    'open_port',
    {
      title: 'Open a port',
      description:
        'Makes a TCP port of the sandbox public and answers with its URL. Says whether a server listens on it already.',
      inputSchema: { sandbox_id: sandboxId, port: z.coerce.number().int().min(1).max(65_535) },
      annotations: { destructiveHint: true },
    },
    ({ sandbox_id, port }, { signal }) =>
      answer(async () => {
        const { ports } = await open(sandbox_id, signal);
        const isOpen = (await ports.list()).ports.some((each) => each.port === port);
        if (!isOpen) await ports.add({ port, name: `port-${port}` });
        const isListening = await ports.waitFor(port, { timeoutMs: listenMs }).then(
          () => true,
          (error) => {
            if (error.code === 'timed_out') return false;
            throw error;
          },
        );
        return json({ port, url: ports.url(port), is_listening: isListening });
      }),
  );

  server.registerTool(
    'pause_sandbox',
    {
      title: 'Pause a sandbox',
      description:
        'Freezes a sandbox: its memory, processes and files are kept. Every tool that works in it resumes it.',
      inputSchema: { sandbox_id: sandboxId },
      annotations: { idempotentHint: true },
    },
    ({ sandbox_id }) =>
      answer(async () => {
        const sandbox = await Sandbox.get(sandbox_id, connection);
        if ((await sandbox.info()).status !== 'paused') await sandbox.pause();
        return json({ sandbox_id, status: 'paused' });
      }),
  );

  server.registerTool(
    'resume_sandbox',
    {
      title: 'Resume a sandbox',
      description: 'Resumes a paused sandbox, and gives it a new timeout.',
      inputSchema: { sandbox_id: sandboxId, timeout_seconds: z.coerce.number().int().min(60).default(900) },
      annotations: { idempotentHint: true },
    },
    ({ sandbox_id, timeout_seconds: timeoutSeconds }) =>
      answer(async () => {
        await Sandbox.connect(sandbox_id, { ...connection, timeoutSeconds });
        return json({ sandbox_id, status: 'running', timeout_seconds: timeoutSeconds });
      }),
  );

  server.registerTool(
    'terminate_sandbox',
    {
      title: 'Terminate a sandbox',
      description: 'Ends a sandbox and what runs in it.',
      inputSchema: { sandbox_id: sandboxId },
      annotations: { destructiveHint: true, idempotentHint: true },
    },
    ({ sandbox_id }) =>
      answer(async () => {
        await (await Sandbox.get(sandbox_id, connection)).terminate();
        return json({ sandbox_id, terminated: true });
      }),
  );

  return server;
}

/** Refusals of the platform become results for the model. Other errors are not shown. */
async function answer(work: () => Promise<CallToolResult>): Promise<CallToolResult> {
  try {
    return await work();
  } catch (error) {
    if ((error as Error).name === 'TimeoutError') return refusal('timed_out', 'The sandbox did not answer in time');
    if (!(error instanceof SandboxError)) throw error;
    return refusal(error.code, error.message);
  }
}

/** What a model can do next. */
const hints: Record<string, string | undefined> = {
  template_not_found: 'Use the template base or code-interpreter',
  sandbox_not_found: 'list_sandboxes has the ids of sandboxes that run; create_sandbox makes one',
  sandbox_ended: 'create_sandbox makes a new one',
  sandbox_not_running: 'resume_sandbox resumes a paused one; an ended one is gone: create_sandbox',
  concurrent_limit_reached: 'terminate_sandbox or pause_sandbox one of list_sandboxes',
  failed_precondition: 'For Python make a sandbox with the template code-interpreter',
  file_too_large: 'Read a part of it with run_command, such as head, tail or grep',
};

function refusal(code: string, message: string): CallToolResult {
  const text = message.replace(/ \(HTTP \d+\)$/, '');
  const hint = /is a directory/i.test(text) ? 'list_files lists a folder' : hints[code];
  return { ...json({ error: text, code, ...(hint && { hint }) }), isError: true };
}

/** The output of a command until its end, or until the client leaves it. */
async function follow(handle: CommandHandle): Promise<CallToolResult> {
  await handle.wait().catch((error) => {
    if (error.code !== 'disconnected') throw error;
  });
  const { pid, stdout, stderr, exitCode } = handle;
  return json({ pid, running: exitCode === null, ...(exitCode !== null && { exit_code: exitCode }), stdout, stderr });
}

/** A file that is not larger than allowed, even if the sandbox lies about its size. */
async function readLimited(files: Files, path: string, maxBytes: number): Promise<Buffer> {
  const requireSize = (bytes: number) => {
    if (bytes <= maxBytes) return;
    throw new SandboxError('file_too_large', `${path} has ${bytes} bytes, more than ${maxBytes}`);
  };
  const { size, type } = await files.stat(path);
  if (type === 'directory') throw new SandboxError('invalid_argument', `${path} is a directory`);
  requireSize(size);
  const bytes = Buffer.from(await files.read(path, { format: 'bytes' }));
  requireSize(bytes.length);
  return bytes;
}

/** Values of code may have integers that a number would change. Where `bigint` comes from a JSON text, V8 has `rawJSON`. */
const exactly = (_key: string, value: unknown) =>
  typeof value === 'bigint' ? (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(value)) : value;
const jsonContent = (value: unknown) => [{ type: 'text' as const, text: JSON.stringify(value, exactly) }];
const json = (value: unknown): CallToolResult => ({ content: jsonContent(value) });

function cut(text: string): string {
  return text.length <= maxTextLength ? text : `${text.slice(0, maxTextLength)}… (${text.length} characters)`;
}

const pictureTypes: Record<string, string | undefined> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
};

function toImages(result: CodeResult) {
  const pictures = [
    { mimeType: 'image/png', data: result.png },
    { mimeType: 'image/jpeg', data: result.jpeg },
  ];
  return pictures.flatMap(({ mimeType, data }) => (data ? [{ type: 'image' as const, data, mimeType }] : []));
}

/** The most informative form of the value for a model. */
function chooseText(result: CodeResult): unknown {
  if (result.json !== undefined) return result.json;
  const text = result.markdown ?? result.text ?? result.html ?? result.latex;
  return text === undefined ? null : cut(text);
}
