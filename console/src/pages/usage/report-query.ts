/** What a report is about, beside its groups. */
export interface ReportQuery {
  start?: string;
  end?: string;
  project_id?: string | undefined;
  account_id?: string | undefined;
}
