import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import PostalMime from 'postal-mime';
import { createMailer, MailRejectedError } from '../../../integrations/mail/mailer.ts';
import type { MailMessage } from '../../../integrations/mail/message.ts';
import { passwordResetMail } from '../../../integrations/mail/templates/password-reset.ts';
import { MailServer } from '../../support/mail-server.ts';

const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-mails-'));
const log: string[] = [];
const logger = pino(
  { level: 'trace' },
  new Writable({
    write(chunk, _encoding, done) {
      log.push(String(chunk));
      done();
    },
  }),
);
const from = 'The platform <no-reply@platform.test>';
const never = new AbortController().signal;
let server: MailServer;

beforeAll(async () => {
  server = await MailServer.start();
});
afterAll(async () => {
  await server.stop();
  fs.rmSync(dataDir, { recursive: true });
});

const mailer = (url?: string) =>
  createMailer({ SMTP_URL: url, PLATFORM_MAIL_FROM: from, PLATFORM_DATA_DIR: dataDir }, logger);

function resetMail(name: string, address = 'ann@example.com'): MailMessage {
  const reset = {
    name,
    url: 'https://platform.test/account/reset-password?token=secret-token',
    expiresAt: new Date(0),
  };
  return { ...passwordResetMail(reset), to: { name, address }, id: 'one' };
}

test('a mail arrives with the same content as text and as HTML, from the sender in the settings', async () => {
  await mailer(server.url).send(resetMail('Ann Ö. <admin>'), never);
  const mail = await server.take('ann@example.com');
  expect(mail).toMatchObject({
    from: { name: 'The platform', address: 'no-reply@platform.test' },
    to: [{ name: 'Ann Ö. <admin>', address: 'ann@example.com' }],
    subject: 'Set a new password',
    messageId: '<one@platform.test>',
  });
  expect(mail.text).toContain('Hello Ann Ö. <admin>,');
  expect(mail.text).toContain('https://platform.test/account/reset-password?token=secret-token');
  expect(mail.text).toContain('until 00:00 UTC');
  expect(mail.html).toContain('Hello Ann Ö. &#60;admin&#62;,');
  expect(mail.html).toContain('href="https://platform.test/account/reset-password?token=secret-token"');
});

test.each([
  ['a line break', 'Ann\r\nBcc: eve@example.com\r\n\r\nbody'],
  ['a lone line feed', 'Ann\nBcc: eve@example.com'],
  ['quotes and brackets', 'Ann" <eve@example.com>, "'],
  ['an encoded word', '=?utf-8?q?Ann=0d=0aBcc:_eve@example.com?='],
])('a name with %s adds no header and no receiver', async (_what, name) => {
  await mailer(server.url).send(resetMail(name), never);
  const mail = await server.take('ann@example.com');
  expect(mail.receivers).toEqual(['ann@example.com']);
  expect(mail.headers.filter(({ key }) => key === 'bcc')).toEqual([]);
  expect(mail.to).toEqual([expect.objectContaining({ address: 'ann@example.com' })]);
  expect(server.mails).toEqual([]);
});

test('a name is escaped in the HTML', async () => {
  await mailer(server.url).send(resetMail('<img src=x onerror=alert(1)>"\'&'), never);
  const mail = await server.take('ann@example.com');
  expect(mail.html).not.toContain('<img');
  expect(mail.html).toContain('&#60;img src=x onerror=alert(1)&#62;&#34;&#39;&#38;');
});

test('a temporary refusal may be retried, a permanent one may not', async () => {
  server.answers.push('451 try later', '550 no such user');
  const first = mailer(server.url).send(resetMail('Ann'), never);
  await expect(first).rejects.toMatchObject({ responseCode: 451 });
  await expect(mailer(server.url).send(resetMail('Ann'), never)).rejects.toBeInstanceOf(MailRejectedError);
  const wrongPassword = server.url.replace(server.password, 'wrong');
  const refused = mailer(wrongPassword).send(resetMail('Ann'), never);
  await expect(refused).rejects.toMatchObject({ code: 'EAUTH' });
  await expect(refused).rejects.not.toBeInstanceOf(MailRejectedError);
});

test('a server that trickles its greeting is disconnected when the caller gives up', async () => {
  const slow = net.createServer((socket) => {
    const timer = setInterval(() => socket.write('220-wait\r\n'), 50);
    socket.on('close', () => clearInterval(timer)).on('error', () => {});
  });
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
  const { port } = slow.address() as net.AddressInfo;
  const sending = mailer(`smtp://127.0.0.1:${port}`).send(resetMail('Ann'), AbortSignal.timeout(500));
  await expect(sending).rejects.toThrow();
  await new Promise((resolve) => slow.close(resolve));
});

test('without a server each mail is a file that only its owner can read, and the log has only its path', async () => {
  await mailer().send(resetMail('Ann'), never);
  await mailer().send(resetMail('Ann'), never);
  const folder = path.join(dataDir, 'mails');
  expect(fs.readdirSync(folder)).toEqual(['one.eml']);
  const file = path.join(folder, 'one.eml');
  expect([fs.statSync(folder).mode & 0o777, fs.statSync(file).mode & 0o777]).toEqual([0o700, 0o600]);
  const mail = await PostalMime.parse(fs.readFileSync(file));
  expect(mail.text).toContain('token=secret-token');
  expect(log.join('')).toContain(file);
  for (const secret of ['secret-token', server.password, 'ann@example.com']) expect(log.join('')).not.toContain(secret);
});
