import { type Configuration, type DriverException, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { escapeLiteral } from './literals.ts';

/**
 * Postgres's error about a refused row contains the values of the row, which may be secrets of users. This driver
 * removes them, because errors go into logs and workflow histories.
 */
export class ReticentDriver extends PostgreSqlDriver {
  constructor(config: Configuration) {
    super(config);
    Object.assign(this.platform, { escapeLiteral });
  }

  override convertException(exception: Error & { detail?: unknown; where?: unknown }): DriverException {
    delete exception.detail;
    delete exception.where;
    return super.convertException(exception);
  }
}
