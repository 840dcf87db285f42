import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ownArchitecture } from '../../../integrations/registry/own-architecture.ts';
import { AgentClient } from '../../../ops/development/client/agent-client.ts';
import { PlatformClient } from '../../../ops/development/client/platform-client.ts';
import { LoopbackRegistry } from '../../support/loopback-registry.ts';
import { pushIndex, pushTree } from '../../support/pushed-image.ts';
import { until } from '../../support/until.ts';

/** Imports an index with images for two architectures, and prints what the program of this machine's one says. */
const folder = mkdtempSync(path.join(os.tmpdir(), 'import-index-'));
const source = await LoopbackRegistry.start(folder);
const origin = `http://${source.address}`;
const [own, foreign] = ['own', 'foreign'].map((name) => path.join(folder, name)) as [string, string];
for (const tree of [own, foreign]) mkdirSync(tree);
cpSync('/usr/bin/tini-static', path.join(own, 'only'));
const foreignArchitecture = ownArchitecture === 'arm64' ? 'amd64' : 'arm64';
await pushIndex(origin, 'several', 'both', [
  [await pushTree(origin, 'several', { tree: foreign, architecture: foreignArchitecture }), foreignArchitecture],
  [await pushTree(origin, 'several', { tree: own, config: { Entrypoint: ['/only'] } }), ownArchitecture],
]);

const api = new PlatformClient(process.env.PLATFORM_URL!, process.env.PLATFORM_API_KEY!);
interface Job {
  job_id: string;
  template_id: string;
  status: string;
}
const wanted = { name: 'several', external_image_url: `${source.address}/several:both` };
let { data: job } = (await api.request<Job>('POST', '/v1/templates/import', wanted)).body;
await until(async () => {
  job = (await api.request<Job>('GET', `/v1/import-jobs/${job.job_id}`)).body.data;
  return ['completed', 'failed', 'cancelled'].includes(job.status);
}, 600_000);
if (job.status !== 'completed') throw new Error(JSON.stringify(job));
const sandbox = await api.createSandbox({ template: job.template_id, timeout: 3600 });
const agent = new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
process.stdout.write((await agent.run('/only', ['--version'])).stdout);
await api.deleteSandbox(sandbox.sandbox_id);
await source.stop();
rmSync(folder, { recursive: true });
