import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { ContextService, ExecutionService } from '../../agent/proto/gen/sandboxagent_pb.js';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { imageFolder, makeImageOnce, rootfsPath } from '../../runtime/images/image-cache.ts';
import { cacheDir, LocalHost } from '../runtime/local-host.ts';
import { muslTree } from '../support/musl-tree.ts';
import { until } from '../support/until.ts';

/** The agent in real containers with other C libraries or none, as root and as another user. */
const run = promisify(execFile);
let host: LocalHost;
const made: string[] = [];

beforeAll(async () => {
  host = await LocalHost.open();
});
afterAll(async () => {
  await host?.close();
  for (const folder of made) {
    for (const left of [folder, `${folder}.lock`]) fs.rmSync(left, { recursive: true, force: true });
  }
});

/** Stores an image in the hosts' cache, with busybox's programs and an account. @returns its reference */
async function makeImage(name: string, fill: (tree: string) => Promise<void>): Promise<string> {
  const digest = `sha256:${createHash('sha256').update(`${name} ${host.dataDir}`).digest('hex')}`;
  made.push(imageFolder(cacheDir(), digest));
  await makeImageOnce({
    cacheDir: cacheDir(),
    digest,
    async make(draft) {
      const tree = rootfsPath(draft);
      await fill(tree);
      for (const folder of ['etc', 'tmp', 'home/app']) fs.mkdirSync(path.join(tree, folder), { recursive: true });
      fs.chmodSync(path.join(tree, 'tmp'), 0o1777);
      fs.chownSync(path.join(tree, 'home/app'), 1000, 1000);
      const accounts = 'root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n';
      fs.writeFileSync(path.join(tree, 'etc/passwd'), accounts);
      await run('chroot', [tree, '/bin/busybox', '--install', '-s', '/bin']);
      return { env: {}, workingDir: '/home/app', user: 'app', entrypoint: [], cmd: [] };
    },
  });
  return `local/${name}@${digest}`;
}

const images = {
  async 'Debian (base)'() {
    return 'builtin:base';
  },
  async 'musl and busybox, no glibc'() {
    const source = await muslTree();
    return makeImage('musl', async (tree) => {
      await run('cp', ['-a', source, tree]);
      const libraries = fs.readdirSync(tree, { recursive: true, encoding: 'utf8' });
      expect(libraries.filter((file) => /libc\.so\.6|ld-linux/.test(file))).toEqual([]);
    });
  },
  async 'busybox and nothing else'() {
    const source = await muslTree();
    return makeImage('scratch', async (tree) => {
      fs.mkdirSync(path.join(tree, 'bin'), { recursive: true });
      fs.copyFileSync(path.join(source, 'bin/busybox'), path.join(tree, 'bin/busybox'));
    });
  },
};

const node = '/.platform/bin/node';

describe.each(Object.keys(images) as (keyof typeof images)[])('in %s', (name) => {
  let spec: SandboxSpec;
  let place: SandboxPlace;
  let root: AgentClient;
  let user: AgentClient;

  beforeAll(async () => {
    spec = host.spec({ image: await images[name](), memoryMb: 512 });
    place = await host.driver.create(spec);
    root = new AgentClient(`${place.address}:${place.agentPort}`, spec.accessToken);
    // A second agent, as the user that the image may name. Every sandbox contains the files that it needs.
    const options = `{ uid: 1000, gid: 1000, cwd: '/tmp', stdio: 'ignore', env: { HOME: '/tmp', PATH: '/bin:/usr/bin', AGENT_PORT: '5000', AGENT_ACCESS_TOKEN: 'of-the-user' } }`;
    await root.start(node, [
      '-e',
      `require('child_process').spawn('${node}', ['/.platform/agent/agent.cjs'], ${options})`,
    ]);
    user = new AgentClient(`${place.address}:5000`, 'of-the-user');
    await until(async () => (await user.request('/health').catch(() => undefined))?.status === 200);
  }, 300_000);

  afterAll(() => {
    root?.close();
    user?.close();
  });

  const text = async (agent: AgentClient, language: string, code: string) => {
    let found = '';
    for await (const { event } of agent.client(ExecutionService).execute({ language, code })) {
      if (event.case === 'stdout') found += event.value.content;
      if (event.case === 'result') found += event.value.text;
    }
    return found;
  };

  test.each([
    ['root', 0],
    ['another user', 1000],
  ])('as %s it serves files, processes and code', async (_who, uid) => {
    const agent = uid === 0 ? root : user;
    expect((await agent.request('/health')).body.toString()).toBe('OK');
    expect((await agent.run('sh', ['-c', 'id -u; exit 3'])).stdout).toBe(`${uid}\n`);

    const file = `/tmp/made by ${uid}/file`;
    await agent.upload(file, 'content');
    expect((await agent.download(encodeURI(file))).toString()).toBe('content');
    const { entry } = await agent.filesystem.stat({ path: file });
    expect(entry).toMatchObject({ path: file, size: 7n });
    expect((await agent.run('stat', ['-c', '%u', file])).stdout).toBe(`${uid}\n`);
    await agent.filesystem.remove({ path: path.dirname(file) });
    await expect(agent.filesystem.stat({ path: file })).rejects.toThrow(/not_found/);
    if (uid !== 0) await expect(agent.upload('/etc/evil', 'x')).rejects.toThrow(/403/);

    expect(await text(agent, 'javascript', 'await Promise.resolve([6 * 7, process.getuid()])')).toBe(`[ 42, ${uid} ]`);
    expect(await text(agent, 'typescript', 'const n: number = 6; n * 7')).toBe('42');
  });

  test('Bash runs if it is installed, otherwise the error names the package', async () => {
    if (name.startsWith('Debian')) expect(await text(root, 'bash', 'echo $((6 * 7))')).toBe('42\n');
    else {
      const created = root.client(ContextService).createContext({ language: 'bash' });
      await expect(created).rejects.toThrow('[failed_precondition] bash is not available: install the package bash');
    }
  });

  test("the image's programs run with their own libraries, as the image's user", async () => {
    const reply = await fetch(`http://${place.address}:${place.agentPort}/platform/probe`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-platform-token': spec.platformToken },
      body: JSON.stringify({ command: ['/bin/sh', '-c', 'id -u >/tmp/probed'], timeoutSeconds: 60 }),
    });
    expect(await reply.json()).toEqual({ exitCode: 0 });
    const imageUser = spec.image === 'builtin:base' ? 0 : 1000;
    expect((await root.download('/tmp/probed')).toString()).toBe(`${imageUser}\n`);
    if (!name.startsWith('musl')) return;
    expect((await user.run('ninja', ['--version'])).stdout).toMatch(/^1\.13/);
    expect((await user.run('sh', ['-c', 'grep -l musl /proc/*/maps | wc -l; env | grep ^LD_'])).stdout).toBe('0\n');
  });
});

test('when many small processes use up the memory, they are ended and the agent survives', async () => {
  const spec = host.spec({ memoryMb: 128 });
  const place = await host.driver.create(spec);
  const agent = new AgentClient(`${place.address}:${place.agentPort}`, spec.accessToken);
  const agentsPid = async () => (await agent.run('sh', ['-c', 'echo $PPID'])).stdout;
  const before = await agentsPid();
  // Each is smaller than the agent, so the kernel would otherwise begin with the agent.
  const python = 'held = bytearray(6_000_000)\nimport time\ntime.sleep(600)';
  await agent.start('sh', ['-c', `for n in $(seq 40); do python3 -c '${python}' & done; wait`]);
  await until(async () => (await host.driver.inspect(spec.sandboxId)).state !== 'running' || (await killed(agent)) > 0);
  expect(await agentsPid()).toBe(before);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'running' });
  agent.close();
}, 300_000);

/** The number of processes that the kernel has ended for lack of memory, by the sandbox's control group. */
async function killed(agent: AgentClient): Promise<number> {
  const files = '/sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events';
  const { stdout } = await agent.run('sh', ['-c', `cat ${files} 2>/dev/null`]);
  return Number(/^oom_kill (\d+)/m.exec(stdout)?.[1] ?? 0);
}
