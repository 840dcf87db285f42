import { OutboundGuard } from '../../../integrations/registry/outbound-guard.ts';
import { namedServices, ownServices } from '../../../platform/config/own-services.ts';
import { loadSettings } from '../../../platform/config/settings.ts';

/** Prints what becomes of names while no nameserver answers, and ends. */
const settings = loadSettings({
  PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
  DATABASE_URL: 'postgres://database.example.com:5432/x',
});
const guard = new OutboundGuard(settings, async () => []);
const aborted = new AbortController();
const outcomes = [
  guard.resolve('registry.example.com', 443, aborted.signal),
  guard.resolve('registry.example.com', 443),
  ownServices(namedServices(settings)).then((services) => services.map(({ port }) => port).includes(5432)),
].map((each) =>
  each.then(
    (value) => JSON.stringify(value),
    ({ message, cause }: Error) => `${message}: ${(cause as Error).name}`,
  ),
);
aborted.abort();
const text = `${JSON.stringify(await Promise.all(outcomes))}\n`;
// An orderly exit waits for the lookups.
process.stdout.write(text, () => process.kill(process.pid, 'SIGKILL'));
