import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { type TestDatabase, temporalAddress, testDatabase } from '../../support/stack.ts';
import { TcpRelay } from '../../support/tcp-relay.ts';

/**
 * The run's Postgres and Temporal as pods of a cluster reach them: at this machine's address on the link to the cluster.
 * The database is empty, and has an owner who may make roles.
 */
export class ExternalServices {
  /** `host:port`. */
  readonly temporal: string;
  readonly namespace: string;
  /** For the owner of the tables, and for the role that the owner makes. */
  readonly urls: { owner: string; runtime: string };
  /** The latter's, from this machine itself. */
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

  /** @param machine this machine's address, where the relays listen */
  static async open(machine: string): Promise<ExternalServices> {
    await using undo = new AsyncDisposableStack();
    // Its URL is the superuser's.
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
