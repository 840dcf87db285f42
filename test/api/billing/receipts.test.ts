import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTaxRate } from '../../../db/billing/subscriptions.ts';
import { newId } from '../../../db/core/new-id.ts';
import { receiptPolicy } from '../../../integrations/receipts/html.ts';
import { addDefaultCard } from '../../support/added-card.ts';
import { addBilling } from '../../support/billing-rows.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { cards, TestProcessor } from '../../support/payment-processor.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let processor: TestProcessor;
let plane: ControlPlane;
let api: TestApi;
beforeAll(async () => {
  processor = await TestProcessor.start();
  plane = await startControlPlane({ driver: new MemoryDriver(), env: processor.env });
  const env = { PLATFORM_RATE_LIMIT_PER_KEY: '0', PLATFORM_INVOICE_ISSUER: 'Sandboxes GmbH\\n10115 Berlin' };
  api = await startApi({ on: plane, env: { ...processor.env, ...env } });
}, 300_000);
afterAll(async () => {
  await api.stop();
  await plane.stop();
  await processor.stop();
});

const receiptUrl = (invoiceId: string, query = '') => `/v1/billing/invoices/${invoiceId}/receipt${query}`;
/** The unchanged bytes. `api.send` checks replies against the document, but converts them to text. */
const download = (by: Caller, invoiceId: string, query = '') =>
  api.app.inject({ url: receiptUrl(invoiceId, query), headers: { 'x-api-key': by.key } });
const readText = (pdf: Buffer) => execFileSync('pdftotext', ['-layout', '-', '-'], { input: pdf }).toString('utf8');
/** The visible text of a page, without its markup. */
const seen = (page: string): string =>
  page
    .replace(/<style>.*<\/style>/s, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&#(\d+);/g, (_all, code) => String.fromCodePoint(Number(code)));
const read = async (by: Caller, invoiceId: string): Promise<Json> =>
  (await api.send(by, 'GET', `/v1/billing/invoices/${invoiceId}`)).body.data;
const sql = (text: string, ...values: unknown[]) => api.orm.em.fork().execute(text, values);

/** An account that bought a more expensive plan, with 19 % tax: 10.00 from its balance, the rest from its card. */
async function payingAccount(): Promise<{ caller: Caller; invoice: Json }> {
  const caller = await api.addAccount();
  await api.orm.em.fork().transactional((tx) => setTaxRate(tx, caller.accountId, '0.19'));
  await api.send(api.root, 'POST', `/v1/accounts/${caller.accountId}/credits`, { action: 'grant', amount: 10 });
  await addDefaultCard({ orm: plane.orm, processor }, caller.accountId, cards.good);
  const change = await api.send(caller, 'POST', '/v1/user-management/account/subscription', { plan_name: 'pro' });
  expect([change.status, change.body.data.change_status]).toEqual([200, 'done']);
  const [invoice] = (await api.send(caller, 'GET', '/v1/billing/invoices')).body.data.invoices;
  return { caller, invoice };
}

/** Issues an invoice with many lines. */
async function issueLong(caller: Caller, lines: number): Promise<string> {
  const invoiceId = await addBilling(api.orm.em, caller.accountId);
  await sql(
    `insert into invoice_lines (invoice_id, position, type, description, quantity, unit_price, amount)
     select ?, n, 'usage', 'line-' || n || '-', 1, 0.01, 0.01 from generate_series(1, ?::int) n`,
    ...[invoiceId, lines],
  );
  await sql(
    `update invoices set status = 'open', subtotal = ?::int * 0.01, total_amount = ?::int * 0.01, issued_at = now() where invoice_id = ?`,
    ...[lines, lines, invoiceId],
  );
  return invoiceId;
}
const pay = (invoiceId: string) =>
  sql("update invoices set status = 'paid', paid_at = now() where invoice_id = ?", invoiceId);

describe('of a paid invoice', () => {
  let caller: Caller;
  let invoice: Json;
  beforeAll(async () => {
    ({ caller, invoice } = await payingAccount());
  });

  /** Each text that must be readable, with the exact amounts of the invoice. */
  function facts(): string[] {
    const cents = (amount: number) => `${amount.toFixed(2).replace('-', '\u2212')} USD`;
    expect(invoice).toMatchObject({ status: 'paid', has_receipt: true, currency: 'USD', paid_from_balance: 10 });
    expect(invoice.receipt_date).toBe(invoice.paid_at);
    expect(invoice.tax_amount).toBeGreaterThan(9);
    return [
      ...['Receipt', invoice.invoice_id, caller.accountId, 'Sandboxes GmbH', '10115 Berlin', 'Tax (19 %)'],
      ...invoice.line_items.flatMap((line: Json) => [line.description, cents(line.amount)]),
      ...[invoice.subtotal, invoice.tax_amount, invoice.total_amount, invoice.paid_from_balance].map(cents),
      ...['Paid from the balance', '•••• 4242', invoice.payment_reference, invoice.paid_at.slice(0, 10)],
    ];
  }

  test('it is a PDF with number, lines, tax and total, to be saved as a file', async () => {
    const pdf = await download(caller, invoice.invoice_id);
    expect([pdf.statusCode, pdf.headers]).toEqual([
      200,
      expect.objectContaining({
        'content-type': 'application/pdf',
        'content-disposition': `attachment; filename="receipt-${invoice.invoice_id}.pdf"`,
        'content-length': String(pdf.rawPayload.length),
        ...{ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' },
      }),
    ]);
    expect(pdf.rawPayload.subarray(0, 5).toString('latin1')).toBe('%PDF-');
    expect(pdf.rawPayload.length).toBeLessThan(200_000);
    const text = readText(pdf.rawPayload);
    for (const fact of facts()) expect(text).toContain(fact);
    expect(text).not.toContain('Given back');
    const asked = await download(caller, invoice.invoice_id, '?format=pdf');
    expect(asked.rawPayload.equals(pdf.rawPayload)).toBe(true);
    // This reply is documented.
    expect((await api.send(caller, 'GET', receiptUrl(invoice.invoice_id))).status).toBe(200);
  });

  test('it is a page with the same content, whose policy allows only its style', async () => {
    const page = await api.send(caller, 'GET', receiptUrl(invoice.invoice_id, '?format=html'));
    expect([page.status, page.headers]).toEqual([
      200,
      expect.objectContaining({
        'content-type': 'text/html; charset=utf-8',
        'content-disposition': `attachment; filename="receipt-${invoice.invoice_id}.html"`,
        'content-security-policy': receiptPolicy,
        ...{ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' },
      }),
    ]);
    expect(receiptPolicy).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'; /,
    );
    const text = seen(page.text);
    for (const fact of facts()) expect(text).toContain(fact);
  });

  test('it shows refunds', async () => {
    const { body } = await api.send(
      ...([api.root, 'POST', `/v1/payment/intents/${invoice.payment_reference}/refunds`] as const),
      { amount: 5.25 },
    );
    expect(body.success).toBe(true);
    for (const text of [
      readText((await download(caller, invoice.invoice_id)).rawPayload),
      seen((await download(caller, invoice.invoice_id, '?format=html')).body),
    ]) {
      expect(text).toMatch(/Given back\s+5\.25 USD/);
    }
  });

  test('a hostile name of the account is shown as text', async () => {
    const name = `"><script>alert(1)</script>'&amp; {{7*7}} Ωmega (\\) endobj`;
    const renamed = await api.send(caller, 'PUT', '/v1/user-management/account', { display_name: name });
    expect(renamed.status).toBe(200);
    const page = (await download(caller, invoice.invoice_id, '?format=html')).body;
    expect(page).not.toContain('<script');
    expect(seen(page)).toContain(name);
    const text = readText((await download(caller, invoice.invoice_id)).rawPayload);
    expect(text.replace(/\s+/g, ' ')).toContain(name);
  });

  test('only root users of its account and operators can read it', async () => {
    const readCode = async (by: Caller, query = '') => {
      const { status, body } = await api.send(by, 'GET', receiptUrl(invoice.invoice_id, query));
      return [status, body?.code];
    };
    for (const format of ['', '?format=html']) {
      expect(await readCode(await api.addAccount(), format)).toEqual([403, 'invoice_of_another_account']);
      expect(await readCode(await api.addUser(caller), format)).toEqual([403, 'root_required']);
      expect(await readCode(api.root, format)).toEqual([200, undefined]);
    }
    for (const format of ['docx', 'PDF', 'pdf&format=html']) {
      expect(await readCode(caller, `?format=${format}`)).toEqual([400, 'validation_failed']);
    }
  });
});

test('an invoice has a receipt when it is paid, and shows that', async () => {
  const caller = await api.addAccount();
  const invoiceId = (await api.send(caller, 'POST', '/v1/billing/invoice/generate')).body.data.invoice_id;
  const outcome = async () => {
    const { status, has_receipt: has, receipt_date: date } = await read(caller, invoiceId);
    const replies = await Promise.all(
      ['', '?format=html'].map((format) => api.send(caller, 'GET', receiptUrl(invoiceId, format))),
    );
    return [status, has, date, ...replies.map((reply) => reply.body?.code ?? reply.status)];
  };
  const none = [false, null, 'invoice_not_paid', 'invoice_not_paid'];
  expect(await outcome()).toEqual(['draft', ...none]);
  await sql("update invoices set status = 'open', issued_at = '2028-02-29T00:10:00Z' where invoice_id = ?", invoiceId);
  expect(await outcome()).toEqual(['open', ...none]);

  await sql("update invoices set status = 'past_due' where invoice_id = ?", invoiceId);
  expect(await outcome()).toEqual(['past_due', ...none]);
  await pay(invoiceId);
  const paidAt = (await read(caller, invoiceId)).paid_at;
  expect(await outcome()).toEqual(['paid', true, paidAt, 200, 200]);
});

test('a void invoice has none; a missing invoice is 404, and an invalid id 400', async () => {
  const caller = await api.addAccount();
  const voided = await issueLong(caller, 1);
  await sql("update invoices set status = 'void' where invoice_id = ?", voided);
  const readCode = async (id: string) => (await api.send(caller, 'GET', receiptUrl(id))).body.code;
  expect([await readCode(voided), await readCode(newId('invoice')), await readCode('none')]).toEqual([
    ...['invoice_not_paid', 'not_found', 'validation_failed'],
  ]);
  expect(await read(caller, voided)).toMatchObject({ status: 'void', has_receipt: false, receipt_date: null });
});

test('an account that requests many PDFs at once is refused some of them, and delays no other account', async () => {
  const [caller, other] = [await api.addAccount(), await api.addAccount()];
  const [long, short] = [await issueLong(caller, 1_000), await issueLong(other, 1)];
  await pay(long);
  await pay(short);
  const ended: string[] = [];
  const many = Array.from({ length: 30 }, async () => {
    const reply = await download(caller, long);
    ended.push(`many ${reply.statusCode}`);
    return reply;
  });
  const one = download(other, short).then((reply) => {
    ended.push(`one ${reply.statusCode}`);
    return reply;
  });
  const replies = await Promise.all(many);
  expect((await one).statusCode).toBe(200);
  // It did not wait for all earlier requests.
  expect(ended.indexOf('one 200')).toBeLessThan(ended.lastIndexOf('many 200'));
  const refused = replies.filter(({ statusCode }) => statusCode === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect([refused[0]!.json().code, refused[0]!.headers['retry-after']]).toEqual(['too_many_requests', '1']);
  const made = replies.filter(({ statusCode }) => statusCode === 200);
  // On a very busy machine a turn may not come in time.
  const late = replies.filter(({ statusCode }) => statusCode === 503);
  expect(made.length + refused.length + late.length).toBe(30);
  for (const reply of late) expect(reply.json().code).toBe('temporarily_unavailable');
  const text = readText(made[0]!.rawPayload);
  expect(new Set(text.match(/line-\d+-/g)).size).toBe(1_000);
  expect(text).toContain('10.00 USD');
  // Its turns are free again.
  expect((await download(caller, long)).statusCode).toBe(200);
}, 300_000);
