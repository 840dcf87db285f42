import { type DriverException, PostgreSqlDriver } from '@mikro-orm/postgresql';

/**
 * Postgres's error about a refused row contains the values of the row, which may be secrets of users. This driver
 * removes them, because errors go into logs and workflow histories.
 */
export class ReticentDriver extends PostgreSqlDriver {
  override convertException(exception: Error & { detail?: unknown; where?: unknown }): DriverException {
    delete exception.detail;
    delete exception.where;
    return super.convertException(exception);
  }
}
