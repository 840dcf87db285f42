import fs from 'node:fs';
import { rootCertificates } from 'node:tls';
import { sandboxNetworks } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import { WebhookSender } from '../../integrations/webhooks/sender.ts';
import { namedServices, ownServices } from '../../platform/config/own-services.ts';
import type { Settings } from '../../platform/config/settings.ts';

/**
 * Makes a sender for webhooks that obeys the settings and never connects to the platform's own services or to
 * sandboxes.
 */
export function createWebhookSender(settings: Settings, orm: Orm): WebhookSender {
  const services = namedServices(settings);
  const caFile = settings.PLATFORM_WEBHOOK_CA_FILE;
  return new WebhookSender({
    allowedRanges: settings.PLATFORM_OUTBOUND_RANGES,
    ownServices: () => ownServices(services),
    sandboxNetworks: () => sandboxNetworks(orm.em),
    ca: caFile ? [...rootCertificates, fs.readFileSync(caFile, 'utf8')].join('\n') : undefined,
  });
}
