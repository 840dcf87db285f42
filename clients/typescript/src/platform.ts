import { ApiClient } from './api-client.ts';
import { ApiKeys } from './api-keys.ts';
import { type ConnectionOptions, readConnection } from './connection-options.ts';
import { Templates } from './templates.ts';
import { UsageReports } from './usage-reports.ts';
import { Webhooks } from './webhooks.ts';

/** What belongs to the account, and not to one sandbox. */
export class Platform {
  readonly templates: Templates;
  readonly apiKeys: ApiKeys;
  readonly usage: UsageReports;
  readonly webhooks: Webhooks;

  /** @throws {SandboxError} `not_configured` */
  constructor(options: ConnectionOptions = {}) {
    const api = new ApiClient(readConnection(options));
    this.templates = new Templates(api);
    this.apiKeys = new ApiKeys(api);
    this.usage = new UsageReports(api);
    this.webhooks = new Webhooks(api);
  }
}
