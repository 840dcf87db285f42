import { FloodedGateway } from '../../test/gateway/floods/flooded-gateway.ts';
import { floodKinds } from '../../test/gateway/floods/flooding-clients.ts';
import { summarize } from '../statistics.ts';

/**
 * The cost of each flood of a client for the gateway and for another tenant. `npm run bench -- floods`;
 * `BENCH_FLOODS=PING` selects floods.
 */
const durationMs = 4000;
const mebibyte = 2 ** 20;
const pattern = new RegExp(process.env.BENCH_FLOODS ?? '');

console.log(
  '\n## Floods of a client against one process of the gateway\n\n' +
    '| flood | sent MiB | closed | RSS before | RSS most, MiB | longest event loop delay ms | another tenant p50/p99 before | during | exits |\n' +
    '|---|---|---|---|---|---|---|---|---|',
);
for (const { name } of floodKinds.filter((flood) => pattern.test(flood.name))) {
  const gateway = await FloodedGateway.start();
  const result = await gateway.playBesideSecondTenant(name, durationMs).finally(() => gateway.stop());
  const { rssBytes, secondTenantMs } = result;
  const of = (samples: number[]) => {
    const { p50, p99, count } = summarize(samples);
    return `${p50.toFixed(1)} / ${p99.toFixed(1)} ms (${count})`;
  };
  const cells = [
    name,
    Math.round(result.bytesSent / mebibyte),
    result.closed,
    Math.round(rssBytes.before / mebibyte),
    Math.round(rssBytes.most / mebibyte),
    Math.round(result.longestDelayMs),
    of(secondTenantMs.before),
    of(secondTenantMs.during),
    result.exits,
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
