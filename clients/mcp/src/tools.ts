import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { type CodeResult, type ConnectionOptions, Sandbox, SandboxError } from '../../typescript/src/index.ts';
import manifest from '../package.json' with { type: 'json' };

/** The maximum length of one output. A model would not read more. */
const maxTextLength = 64 * 1024;
const maxPictures = 8;
const defaultTimeoutSeconds = 120;
/** Limits of one tool call: the server works for several callers, and root in a sandbox can send any bytes. */
const maxReplyBytes = 16 * 1024 * 1024;
const replyMs = 60_000;

const sandboxId = z
  .string()
  .regex(/^sbx-[a-z0-9-]+$/)
  .describe('As create_sandbox or list_sandboxes gave it');
const path = z.string().min(1).max(4096).describe('Absolute, or relative to the home folder');
const seconds = z.number().int().min(1).max(3600);

/** An MCP server whose tools work on the sandboxes of one caller. */
export function createMcpServer(connection: ConnectionOptions): McpServer {
  const server = new McpServer(
    { name: 'sandbox-platform', version: manifest.version },
    {
      instructions:
        'Isolated Linux sandboxes. Make one with create_sandbox, work in it with its id, end it with terminate_sandbox. ' +
        'It ends by itself after its timeout.',
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
        'Makes a Linux sandbox and answers with its id. Template `base` has Python, Node and common tools; ' +
        '`code-interpreter` also pandas and matplotlib.',
      inputSchema: {
        template: z
          .string()
          .max(128)
          .default('base')
          .describe('An id, a name, or `<user name>/<name>` for one of a colleague'),
        timeout_seconds: z.number().int().min(60).default(900).describe('It ends after that'),
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
      description: 'Runs a line in the shell of a sandbox; answers with exit code, stdout and stderr.',
      inputSchema: {
        sandbox_id: sandboxId,
        command: z.string().min(1).max(100_000),
        cwd: path.optional(),
        stdin: z.string().max(1_000_000).optional(),
        timeout_seconds: seconds.default(defaultTimeoutSeconds).describe('Then it is killed'),
        background: z.boolean().default(false).describe('Answer at once with the pid, for servers'),
      },
      annotations: { destructiveHint: true },
    },
    ({ sandbox_id, command, cwd, stdin, timeout_seconds, background }, { signal }) =>
      answer(async () => {
        const { commands } = await open(sandbox_id, signal, timeout_seconds);
        const options = { ...(cwd !== undefined && { cwd }), ...(stdin !== undefined && { stdin }) };
        if (background) {
          const handle = await commands.run(command, { ...options, background: true });
          handle.disconnect();
          return json({ pid: handle.pid });
        }
        const limits = { timeoutMs: timeout_seconds * 1000, maxOutputLength: maxTextLength, signal };
        const { exitCode, stdout, stderr, truncated } = await commands.run(command, { ...options, ...limits });
        return json({ exit_code: exitCode, stdout, stderr, ...(truncated && { truncated }) });
      }),
  );

  server.registerTool(
    'run_code',
    {
      title: 'Run code',
      description:
        'Runs code in a context of the sandbox that keeps its variables between calls. Answers with output, values, ' +
        'and plots as images. Python needs the template `code-interpreter`.',
      inputSchema: {
        sandbox_id: sandboxId,
        code: z.string().min(1).max(1_000_000),
        language: z.enum(['python', 'javascript', 'typescript', 'bash', 'r', 'java']).default('python'),
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
        const { files } = await open(sandbox_id, signal);
        const { size } = await files.stat(path);
        const mimeType = pictureTypes[/\.[a-z]+$/i.exec(path)?.[0].toLowerCase() ?? ''];
        const maxBytes = mimeType ? 4 * 1024 * 1024 : 4 * maxTextLength;
        const requireSize = (bytes: number) => {
          if (bytes <= maxBytes) return;
          throw new SandboxError('file_too_large', `${path} has ${bytes} bytes, more than ${maxBytes}`);
        };
        requireSize(size);
        const bytes = Buffer.from(await files.read(path, { format: 'bytes' }));
        requireSize(bytes.length);
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
    'list_files',
    {
      title: 'List files',
      description: 'What is in a folder of a sandbox, 1000 entries at most.',
      inputSchema: { sandbox_id: sandboxId, path, depth: z.number().int().min(1).max(20).default(1) },
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
      description: 'Makes a TCP port of the sandbox public and answers with its URL.',
      inputSchema: { sandbox_id: sandboxId, port: z.number().int().min(1).max(65_535) },
      annotations: { destructiveHint: true },
    },
    ({ sandbox_id, port }, { signal }) =>
      answer(async () => {
        const { ports } = await open(sandbox_id, signal);
        const isOpen = (await ports.list()).ports.some((each) => each.port === port);
        if (!isOpen) await ports.add({ port, name: `port-${port}` });
        return json({ port, url: ports.url(port) });
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

function refusal(code: string, message: string): CallToolResult {
  return { ...json({ error: message, code }), isError: true };
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
