import assert from 'node:assert/strict';
import type * as Package from '@e2b/code-interpreter';
import { runParts, until } from './parts.ts';

/**
 * Reaches a sandbox by the names of its ports, with TLS, through the version of @e2b/code-interpreter that the variable
 * E2B_PACKAGE names. The variables have only E2B_DOMAIN and E2B_API_KEY, and the platform's certificate authority.
 */
const { Sandbox }: typeof Package = await import(process.env.E2B_PACKAGE!);

async function aSandboxIsUsed() {
  const sandbox = await Sandbox.create();
  assert.equal((await sandbox.commands.run('echo by name')).stdout, 'by name\n');
  await sandbox.files.write('a.txt', 'text');
  assert.equal(await sandbox.files.read('a.txt'), 'text');
  assert.equal((await sandbox.runCode('6 * 7')).text, '42');
  const handle = await sandbox.commands.run('cat', { background: true, stdin: true });
  await handle.sendStdin('typed');
  await handle.closeStdin();
  assert.equal((await handle.wait()).stdout, 'typed');

  const url = await sandbox.downloadUrl('a.txt', { useSignatureExpiration: 60 });
  assert.ok(url.startsWith(`https://49983-${sandbox.sandboxId}.${process.env.E2B_DOMAIN}/files?`), url);
  assert.equal(await (await fetch(url)).text(), 'text');
  const form = new FormData();
  form.append('file', new Blob(['uploaded']), 'b.txt');
  const uploaded = await fetch(await sandbox.uploadUrl('b.txt'), { method: 'POST', body: form });
  assert.deepEqual([uploaded.status, await sandbox.files.read('b.txt')], [200, 'uploaded']);

  await sandbox.commands.run('echo served >index.html; exec python3 -m http.server 8000', { background: true });
  const page = `https://${sandbox.getHost(8000)}/index.html`;
  await until(async () => (await fetch(page)).status === 200, 'the server answers');
  assert.equal(await (await fetch(page)).text(), 'served\n');
  // The agent and the code interpreter require the token.
  for (const place of [`${sandbox.getHost(49983)}/envs`, `${sandbox.getHost(49999)}/contexts`]) {
    assert.equal((await fetch(`https://${place}`)).status, 401, place);
  }
  await sandbox.kill();
}

await runParts({ aSandboxIsUsed }, () => []);
