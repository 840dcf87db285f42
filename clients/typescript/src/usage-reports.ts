import type { ApiClient } from './api-client.ts';
import type { GetQuotaData, GetUsageSummaryData, GetUsageSummaryQuery } from './generated/api.ts';
import type { RequestOptions } from './request-options.ts';

export interface UsageOptions extends RequestOptions {
  /** Default: 30 days before the end. */
  start?: Date;
  /** Default: now. */
  end?: Date;
  projectId?: string;
  /** `project_id`, `user_id`, or `metadata.<key>` of the sandboxes: adds `groups` to the reply. */
  groupBy?: string;
}

/** What the account uses, and how much it may use. */
export class UsageReports {
  readonly #api: ApiClient;

  constructor(api: ApiClient) {
    this.#api = api;
  }

  /** The use of a period, with its cost. */
  summary({ start, end, projectId, groupBy, ...options }: UsageOptions = {}): Promise<GetUsageSummaryData> {
    const query = { start: start?.toISOString(), end: end?.toISOString(), project_id: projectId, group_by: groupBy };
    return this.#api.call('getUsageSummary', { query: query as GetUsageSummaryQuery, ...options });
  }

  /** The quotas of the caller and of the account, with the use of this month. */
  quota(options: RequestOptions = {}): Promise<GetQuotaData> {
    return this.#api.call('getQuota', options);
  }
}
