import type net from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { PaymentProcessor, ProcessorUnavailableError } from '../../../integrations/payments/processor.ts';
import { processorFetch } from '../../../integrations/payments/processor-fetch.ts';
import { loadSettings } from '../../../platform/config/settings.ts';
import { processorSettings } from '../../support/processor-settings.ts';
import { createChunk, pour, RawServer } from '../../support/raw-server.ts';
import { until } from '../../support/until.ts';

let server: RawServer;
afterEach(() => server.stop());

async function processorThat(onRequest: (socket: net.Socket) => void): Promise<PaymentProcessor> {
  server = await RawServer.start(onRequest);
  return PaymentProcessor.of(
    loadSettings({
      PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
      DATABASE_URL: 'postgres://127.0.0.1:5432/x',
      ...processorSettings(`http://${server.address}`),
    }),
  )!;
}

const chunked = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
const sends = (status: number, body: string) => (socket: net.Socket) =>
  void socket.write(`HTTP/1.1 ${status} Status\r\ncontent-length: ${body.length}\r\n\r\n${body}`);

test('a reply without end is given up, and its connection is closed', async () => {
  const processor = await processorThat((socket) => pour(socket, chunked, createChunk(65_536)));
  await expect(processor.readCharge('pi_1')).rejects.toThrow(ProcessorUnavailableError);
  await until(() => server.open === 0);
});

test.each<[string, number, string]>([
  ['a text', 200, '"busy"'],
  ['a number', 200, '5'],
  ['null', 200, 'null'],
  ['an array', 200, '[]'],
  ['an object without an id', 200, '{}'],
  ['a failure that is null', 503, 'null'],
  ['a failure without an error', 503, '{"message":"busy"}'],
  ['a failure whose error is a number', 400, '{"error":5}'],
  ['half of an object', 200, '{"id":"pi_1"'],
])('a reply that is %s leaves the outcome unknown', async (_what, status, body) => {
  const processor = await processorThat(sends(status, body));
  for (const call of [
    () => processor.readCharge('pi_1'),
    () => processor.createCustomer({ accountId: 'acc-1', email: 'ada@example.com' }),
    () => processor.listRefunds('pi_1'),
  ]) {
    await expect(call()).rejects.toThrow(ProcessorUnavailableError);
  }
});

test('a reply that switches protocols is given up', async () => {
  const switching = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n';
  const processor = await processorThat((socket) => void socket.write(switching));
  await expect(processor.readCharge('pi_1')).rejects.toThrow(ProcessorUnavailableError);
});

test('a reply whose bytes never pause is given up after its time', async () => {
  server = await RawServer.start((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
    const timer = setInterval(() => socket.write(' '), 20);
    socket.on('close', () => clearInterval(timer));
  });
  await expect(processorFetch(300)(`http://${server.address}/`)).rejects.toThrow('no reply within 300 ms');
  await until(() => server.open === 0);
});
