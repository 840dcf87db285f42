import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { ensureImage } from '../../runtime/images/image-store.ts';
import { forgetImage, LoopbackRegistry } from '../support/loopback-registry.ts';
import { cacheDir, LocalHost, onHost, shell } from './local-host.ts';

/** A registry on loopback with images that are made here. No other registry is needed. */
let folder: string;
let registry: string;
let server: LoopbackRegistry;
let host: LocalHost;
const pushed: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'images-'));
  server = await LoopbackRegistry.start(folder);
  registry = server.address;
  host = await LocalHost.open({ registryInsecureHttp: true });
}, 300_000);
afterAll(() => host.closeEmpty());
afterAll(async () => {
  await server.stop();
  for (const digest of pushed) forgetImage(digest);
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Pushes an image. Its layers are shell scripts, each run in an empty folder, or `whiteout <path>`.
 * @returns its digest
 */
function push(name: string, layers: string[], config: string[] = []): string {
  const layout = path.join(folder, `layout-${name.replace(/\W/g, '-')}`);
  onHost('umoci', 'init', '--layout', layout);
  onHost('umoci', 'new', '--image', `${layout}:image`);
  for (const [at, script] of layers.entries()) {
    const [, gone] = /^whiteout (.*)$/.exec(script) ?? [];
    if (gone) {
      onHost('umoci', 'insert', '--image', `${layout}:image`, '--whiteout', gone);
      continue;
    }
    const content = path.join(layout, `content-${at}`);
    mkdirSync(content);
    onHost('sh', '-ec', `cd '${content}'; ${script}`);
    onHost('umoci', 'insert', '--image', `${layout}:image`, content, '/');
  }
  if (config.length > 0) onHost('umoci', 'config', '--image', `${layout}:image`, ...config);
  const digestFile = path.join(layout, 'digest');
  onHost(
    'skopeo',
    'copy',
    '-q',
    '--dest-tls-verify=false',
    '--digestfile',
    digestFile,
    `oci:${layout}:image`,
    `docker://${registry}/${name}`,
  );
  const digest = onHost('cat', digestFile);
  pushed.push(digest);
  return digest;
}

const createFrom = async (image: string) => {
  const spec = host.spec({ image });
  return { spec, place: await host.driver.create(spec) };
};
/** Runs a node program inside, because there is no shell. */
const program = async ({ spec, place }: Awaited<ReturnType<typeof createFrom>>, script: string) => {
  const reply = await fetch(`http://${place.address}:${place.agentPort}/platform/probe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-platform-token': spec.platformToken },
    body: JSON.stringify({ command: ['/.platform/bin/node', '-e', script], timeoutSeconds: 60 }),
  });
  return ((await reply.json()) as { exitCode: number }).exitCode;
};

test('the agent runs in an image that has no C library, no shell and no folders', async () => {
  const digest = push('bare:1', ['cp /usr/bin/tini-static only']);
  const sandbox = await createFrom(`${registry}/bare@${digest}`);
  expect(await program(sandbox, `process.exit(require('fs').readdirSync('/').includes('only') ? 5 : 1)`)).toBe(5);
  expect(
    await program(sandbox, `process.exit(require('child_process').spawnSync('/only', ['--version']).status)`),
  ).toBe(0);
});

test("the command has the image's owners, environment, folder and user", async () => {
  push(
    'configured:1',
    [
      'mkdir -p app etc; echo app:x:1234:1234::/app:/bin/sh >etc/passwd; echo mine >app/file; chown -R 1234:1234 app; echo root >secret; chmod 600 secret',
    ],
    ['--config.env=FROM_IMAGE=yes', '--config.env=GREETING=image', '--config.workingdir=/app', '--config.user=app'],
  );
  const sandbox = await createFrom(`${registry}/configured:1`);
  const check = `const fs = require('fs'); const { FROM_IMAGE, GREETING } = process.env;
    const refused = (() => { try { fs.readFileSync('/secret') } catch (error) { return error.code === 'EACCES' } })();
    process.exit(FROM_IMAGE === 'yes' && GREETING === 'hello' && process.cwd() === '/app' && process.getuid() === 1234 &&
      fs.statSync('file').uid === 1234 && refused ? 7 : 1)`;
  expect(await program(sandbox, check)).toBe(7);
});

test('later layers remove and replace files of earlier ones', async () => {
  push('layered:1', ['mkdir d; echo 1 >d/gone; echo 1 >changed', 'whiteout /d/gone', 'echo 2 >changed']);
  const sandbox = await createFrom(`${registry}/layered:1`);
  const check = `const fs = require('fs'); process.exit(!fs.existsSync('/d/gone') && fs.readFileSync('/changed', 'utf8') === '2\\n' ? 7 : 1)`;
  expect(await program(sandbox, check)).toBe(7);
});

test('a device in an image gives no access to a device of the host', async () => {
  push('devices:1', ['mknod disk b 7 0; chmod 666 disk; mknod memory c 1 1; chmod 666 memory']);
  const sandbox = await createFrom(`${registry}/devices:1`);
  const check = (file: string) =>
    `try { require('fs').openSync('${file}') } catch (error) { process.exit(error.code === 'EACCES' || error.code === 'EPERM' ? 7 : 1) }`;
  expect(await program(sandbox, check('/disk'))).toBe(7);
  expect(await program(sandbox, check('/memory'))).toBe(7);
});

test("links in an image lead to no file of the host, even at the places of the sandbox's own files", async () => {
  const trap = path.join(folder, 'trap');
  writeFileSync(trap, 'untouched');
  push('links:1', [
    `mkdir etc; for name in hosts hostname resolv.conf; do ln -s ${trap} etc/$name; done; ln -s / run; ln -s ${folder} .platform`,
  ]);
  const spec = host.spec({ image: `${registry}/links:1` });
  await host.driver.create(spec).then(
    () => undefined,
    (error) => expect(error).toMatchObject({ code: 'start_failed' }),
  );
  expect(onHost('cat', trap)).toBe('untouched');
  expect(await readdir(folder)).not.toContain('bin');
  await host.driver.remove(spec.sandboxId);
});

test('a moved tag gives the new image, a digest the old one', async () => {
  const first = push('moving:latest', ['echo 1 >version']);
  const before = await createFrom(`${registry}/moving:latest`);
  push('moving:latest'.replace('latest', 'next'), ['echo 2 >version']);
  onHost(
    'skopeo',
    'copy',
    '-q',
    '--src-tls-verify=false',
    '--dest-tls-verify=false',
    `docker://${registry}/moving:next`,
    `docker://${registry}/moving:latest`,
  );
  const after = await createFrom(`${registry}/moving:latest`);
  const pinned = await createFrom(`${registry}/moving@${first}`);
  const versionIs = (version: string) =>
    `process.exit(require('fs').readFileSync('/version', 'utf8') === '${version}\\n' ? 7 : 1)`;
  expect(await program(before, versionIs('1'))).toBe(7);
  expect(await program(after, versionIs('2'))).toBe(7);
  expect(await program(pinned, versionIs('1'))).toBe(7);
});

test('a missing image and an unreachable registry have their own errors', async () => {
  await expect(createFrom(`${registry}/none:1`)).rejects.toMatchObject({ code: 'image_pull_failed', retryable: false });
  await expect(createFrom('127.0.0.1:1/none:1')).rejects.toMatchObject({ code: 'image_pull_failed', retryable: true });
});

test('plain HTTP is used only if it is allowed', async () => {
  push('plain:1', ['echo 1 >version']);
  const reference = `${registry}/plain:1`;
  await expect(ensureImage({ cacheDir: folder, reference })).rejects.toThrow(/HTTPS|TLS|https/);
});

test('ten concurrent requests for an image unpack it once', async () => {
  const digest = push('shared:1', ['head -c 5M /dev/urandom >blob']);
  const cache = await mkdtemp(path.join(folder, 'cache-'));
  const options = { cacheDir: cache, reference: `${registry}/shared:1`, registryInsecureHttp: true };
  const images = await Promise.all(Array.from({ length: 10 }, () => ensureImage(options)));
  expect(new Set(images.map((image) => image.rootfs)).size).toBe(1);
  expect(images[0]!.digest).toBe(digest);
  expect((await readdir(path.join(cache, 'images'))).filter((name) => !name.endsWith('.lock'))).toHaveLength(1);
  await rm(cache, { recursive: true });
});

test('the base image may be pulled instead of built', async () => {
  push('base:1', ['echo pulled >version']);
  const cache = await mkdtemp(path.join(folder, 'cache-'));
  const image = await ensureBaseImage({ cacheDir: cache, reference: `${registry}/base:1`, registryInsecureHttp: true });
  expect(onHost('cat', path.join(image.rootfs, 'version'))).toBe('pulled');
});

test('the base image of Debian packages is available and taken from the cache', async () => {
  const progress: string[] = [];
  const image = await ensureBaseImage({ cacheDir: cacheDir(), onProgress: ({ message }) => progress.push(message) });
  expect(progress).toEqual([]);
  expect(image.config.env).toEqual({ LANG: 'C.UTF-8' });
  const spec = host.spec();
  const place = await host.driver.create(spec);
  const { output } = await shell(
    place,
    spec,
    'for tool in bash curl git python3 pip sudo ping; do command -v $tool; done; echo $LANG',
  );
  expect(output).toMatch(/bash\n.*curl\n.*git\n.*python3\n.*pip\n.*sudo\n.*ping\nC\.UTF-8$/);
});

test('the base image has a user with a home of its own, who becomes root or another user by sudo', async () => {
  const spec = host.spec();
  const place = await host.driver.create(spec);
  const script = `id user; getent passwd user; find /home/user -printf '%u:%g %f\\n' | sort
    su - user -c 'pwd; sudo -n id -un; sudo -n -u games id -un; sudo -n tee /etc/by-user <<< hello; stat -c %U /etc/by-user'`;
  const { output } = await shell(place, spec, script);
  expect(output.split('\n')).toEqual([
    'uid=1000(user) gid=1000(user) groups=1000(user),27(sudo)',
    'user:x:1000:1000::/home/user:/bin/bash',
    ...['.bash_logout', '.bashrc', '.profile', 'user'].map((name) => `user:user ${name}`),
    ...['/home/user', 'root', 'games', 'hello', 'root'],
  ]);
});
