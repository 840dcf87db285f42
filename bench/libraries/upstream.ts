import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Pool } from 'undici';
import { Http1Connection } from '../../gateway/upstream/http1-connection.ts';
import { directOpening } from '../../gateway/upstream/opening.ts';
import { summarize } from '../statistics.ts';
import type { Rivals } from './in-turns.ts';

const bodyMib = 256;

/** The gateway's connections to sandboxes: small requests, large bodies, and bodies in chunks. */
export async function withUpstreamRivals(compare: (rivals: readonly Rivals[]) => Promise<void>): Promise<void> {
  // The server runs on its own thread, so that only the client is measured.
  const server = new Worker(new URL('./upstream-server.ts', import.meta.url));
  const [port] = (await once(server, 'message')) as [number];
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 1, pipelining: 1 });
  const address = '127.0.0.1';
  const connection = await Http1Connection.connect(
    address,
    directOpening({ sandboxId: 'sbx-bench', address, tunnel: null }, port),
  );
  const ours = (path: string) => getByOurs(connection, path);
  const library = (path: string) => getByUndici(pool, path);
  const latency = async (get: (path: string) => Promise<number>) => {
    const times: number[] = [];
    for (let request = 0; request < 1000; request += 1) {
      const startedMs = performance.now();
      await get('/small');
      times.push(performance.now() - startedMs);
    }
    return summarize(times).p50;
  };
  const speed = async (get: (path: string) => Promise<number>, path: string) => {
    const startedMs = performance.now();
    const received = await get(`${path}?${bodyMib}`);
    if (received !== bodyMib * 2 ** 20) throw new Error(`${received} bytes came`);
    return received / 1e6 / ((performance.now() - startedMs) / 1000);
  };
  try {
    await compare([
      {
        measure: 'upstream: small GET, p50',
        unit: 'ms',
        better: 'less',
        ours: () => latency(ours),
        library: () => latency(library),
      },
      {
        measure: 'upstream: body with a length',
        unit: 'MB/s',
        better: 'more',
        ours: () => speed(ours, '/length'),
        library: () => speed(library, '/length'),
      },
      {
        measure: 'upstream: body in chunks of 4 KiB',
        unit: 'MB/s',
        better: 'more',
        ours: () => speed(ours, '/chunks'),
        library: () => speed(library, '/chunks'),
      },
    ]);
  } finally {
    connection.destroy();
    await pool.destroy();
    await server.terminate();
  }
}

function getByOurs(connection: Http1Connection, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let received = 0;
    connection.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`, 'GET', {
      onInformational: () => undefined,
      onHead: () => undefined,
      onBody: (bytes, last) => {
        received += bytes.length;
        if (!last) return;
        connection.detach();
        resolve(received);
      },
      onTunnelBytes: () => undefined,
      onReadDone: () => undefined,
      onWritable: () => undefined,
      onBroken: reject,
    });
  });
}

function getByUndici(pool: Pool, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let received = 0;
    pool.dispatch(
      { path, method: 'GET' },
      {
        onRequestStart: () => undefined,
        onResponseStart: () => undefined,
        onResponseData: (_controller, bytes) => {
          received += bytes.length;
        },
        onResponseEnd: () => resolve(received),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
}
