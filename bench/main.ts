/**
 * `npm run bench [-- lifecycle agent gateway last-hop floods exec metrics bodies accounts usage create density imports
 * workflows libraries webhooks templates billing e2b cluster console peers]`: measures the speed, and the floors of the same
 * machine in the same run.
 */
const benches: Record<string, () => Promise<unknown>> = {
  lifecycle: () => import('./lifecycle/run.ts'),
  agent: () => import('./agent/run.ts'),
  gateway: () => import('./gateway/run.ts'),
  'last-hop': () => import('./last-hop/run.ts'),
  floods: () => import('./floods/run.ts'),
  exec: () => import('./exec/run.ts'),
  metrics: () => import('./metrics/run.ts'),
  bodies: () => import('./bodies/run.ts'),
  accounts: () => import('./accounts/run.ts'),
  usage: () => import('./usage/run.ts'),
  create: () => import('./create/run.ts'),
  density: () => import('./density/run.ts'),
  imports: () => import('./imports/run.ts'),
  workflows: () => import('./workflows/run.ts'),
  libraries: () => import('./libraries/run.ts'),
  webhooks: () => import('./webhooks/run.ts'),
  templates: () => import('./templates/run.ts'),
  billing: () => import('./billing/run.ts'),
  e2b: () => import('./e2b/run.ts'),
  cluster: () => import('./cluster/run.ts'),
  console: () => import('./console/run.ts'),
  peers: () => import('./peers/run.ts'),
};
/** Run only if it is named: it needs Docker, which nothing else here needs. */
const onlyByName = 'peers';
const asked = process.argv.slice(2);
for (const name of asked) {
  if (!benches[name]) {
    console.error(`There is no bench ${name}; there are ${Object.keys(benches).join(', ')}`);
    process.exit(2);
  }
}
const all = Object.keys(benches).filter((name) => name !== onlyByName);
for (const name of asked.length > 0 ? asked : all) await benches[name]!();
