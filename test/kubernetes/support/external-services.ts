import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { type TestDatabase, temporalAddress, testDatabase } from '../../support/stack.ts';
import { TcpRelay } from '../../support/tcp-relay.ts';

/**
 * Makes Postgres and Temporal of the test run reachable for pods of a cluster, at this machine's address on the link to
 * the cluster. The database is empty, and its owner may create roles.
 */
export class ExternalServices {
  /** `host:port`. */
  readonly temporal: string;
  readonly namespace: string;
  /** The URLs for the owner of the tables and for the role that the owner creates. */
  readonly urls: { owner: string; runtime: string };
  /** The URL for the second role from this machine. */
  readonly urlHere: string;
  readonly #undo: AsyncDisposableStack;

  private constructor(
    found: Pick<ExternalServices, 'temporal' | 'namespace' | 'urls' | 'urlHere'>,
    undo: AsyncDisposableStack,
  ) {
    this.temporal = found.temporal;
    this.namespace = found.namespace;
    this.urls = found.urls;
    this.urlHere = found.urlHere;
    this.#undo = undo;
  }

  /** @param machine the address of this machine at which the relays listen */
  static async open(machine: string): Promise<ExternalServices> {
    await using undo = new AsyncDisposableStack();
    // The URL of this database is for the superuser.
    const any = await testDatabase();
    undo.defer(() => any.drop());
    const name = `chart_${randomBytes(6).toString('hex')}`;
    const [owner, runtime] = [`${name}_owner`, `${name}_runtime`];
    await asSuperuser(any, async (client) => {
      await client.query(`create role ${owner} login createrole password 'owner'`);
      await client.query(`create database ${name} owner ${owner}`);
    });
    undo.defer(() =>
      asSuperuser(any, async (client) => {
        await client.query(`drop database ${name} with (force)`);
        for (const role of [runtime, owner]) await client.query(`drop role if exists ${role}`);
      }),
    );
    const { host } = new URL(any.url);
    const postgres = await TcpRelay.open(host, machine);
    undo.defer(() => postgres.close());
    const temporal = await TcpRelay.open(await temporalAddress(), machine);
    undo.defer(() => temporal.close());
    const urlAt = (address: string, role: string, password: string) =>
      `postgres://${role}:${password}@${address}/${name}`;
    const urls = {
      owner: urlAt(postgres.address, owner, 'owner'),
      runtime: urlAt(postgres.address, runtime, 'runtime'),
    };
    const urlHere = urlAt(host, runtime, 'runtime');
    return new ExternalServices({ temporal: temporal.address, namespace: name, urls, urlHere }, undo.move());
  }

  async close(): Promise<void> {
    await this.#undo.disposeAsync();
  }
}

async function asSuperuser(database: TestDatabase, work: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
