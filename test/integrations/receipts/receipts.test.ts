import { execFileSync } from 'node:child_process';
import { currencyDigits } from '../../../domain/billing/currency.ts';
import { type InvoiceLine, subscriptionLine } from '../../../domain/billing/invoice.ts';
import { amountText, quantityText, type Receipt, receiptTitle, shownText } from '../../../domain/billing/receipt.ts';
import { receiptHtml, receiptPolicy } from '../../../integrations/receipts/html.ts';
import { receiptPdf } from '../../../integrations/receipts/pdf.ts';
import { BrowserTab } from '../../support/browser-tab.ts';

const receipt = (more: Partial<Receipt> = {}): Receipt => ({
  ...{ invoiceId: 'inv-abcdefghij0123456789', status: 'paid', issuer: 'Sandboxes GmbH\nHauptstraße 1\n10115 Berlin' },
  customer: { accountId: 'acc-abcdefghij0123456789', name: 'Ada Lovelace', email: 'ada@example.com' },
  ...{ periodStart: new Date('2028-01-31T00:00:00Z'), periodEnd: new Date('2028-02-29T00:00:00Z') },
  ...{ issuedAt: new Date('2028-02-29T00:10:00Z'), dueAt: new Date('2028-03-07T00:10:00Z') },
  ...{ paidAt: new Date('2028-02-29T00:11:00Z'), currency: 'USD' },
  lines: [
    subscriptionLine('team plan', '99.00'),
    { type: 'usage', description: 'CPU seconds', quantity: '123456.789', unitPrice: '0.000014', amount: '1.73' },
    subscriptionLine('Unused time of the hobby plan', '-9.50'),
  ],
  ...{ subtotal: '91.23', taxRate: '0.19', taxAmount: '17.33', totalAmount: '108.56', paidFromBalance: '8.56' },
  ...{ amountRefunded: '0.00', paymentMethod: 'visa •••• 4242', paymentReference: 'pi_123' },
  ...more,
});
const readText = (pdf: Buffer): string =>
  execFileSync('pdftotext', ['-layout', '-', '-'], { input: pdf, maxBuffer: 1 << 26 }).toString('utf8');
/** The visible text of a page, without its markup. */
const seen = (page: string): string =>
  page
    .replace(/<style>.*<\/style>/s, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&#(\d+);/g, (_all, code) => String.fromCodePoint(Number(code)));

describe.each([
  ['the page', async (of: Receipt) => seen(receiptHtml(of))],
  ['the PDF', async (of: Receipt) => readText(await receiptPdf(of))],
])('%s', (_what, render) => {
  test('shows payer, receiver, purpose, time, and each amount exactly', async () => {
    const text = await render(receipt());
    for (const shown of [
      ...['Receipt', 'inv-abcdefghij0123456789', 'Sandboxes GmbH', 'Hauptstraße 1', 'Ada Lovelace', 'ada@example.com'],
      ...['acc-abcdefghij0123456789', '2028-01-31 to 2028-02-29', '2028-02-29', 'visa •••• 4242', 'pi_123'],
      ...['team plan', '99.00 USD', '123456.789', '0.000014 USD', '1.73 USD', '\u22129.50 USD', '91.23 USD'],
      ...['Tax (19 %)', '17.33 USD', '108.56 USD', 'Paid from the balance', '8.56 USD'],
    ]) {
      expect(text).toContain(shown);
    }
    expect(text).not.toContain('Given back');
    expect(await render(receipt({ amountRefunded: '5.00' }))).toMatch(/Given back\s+5\.00 USD/);
  });

  test('shows names in other alphabets, and no deceptive characters', async () => {
    const name = 'Ωmega Žižek Шевченко «Ünïcødé» & <b>co</b> "x" \u202e00.1\u202c\u0007\ttab\nline\u2028end\ud800';
    const text = await render(receipt({ customer: { ...receipt().customer, name } }));
    expect(text.replace(/\s+/g, ' ')).toContain('Ωmega Žižek Шевченко «Ünïcødé» & <b>co</b> "x" 00.1 tab line end');
    expect(text).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect(text).not.toContain('\u0007');
  });

  test('with thousands of lines has all of them', async () => {
    const lines: InvoiceLine[] = Array.from({ length: 3000 }, (_, i) => subscriptionLine(`line-${i}-`, '0.01'));
    const text = await render(receipt({ lines }));
    expect(new Set(text.match(/line-\d+-/g)).size).toBe(3000);
    expect(text).toContain('108.56 USD');
  }, 120_000);
});

test('a name with HTML in it is shown as text', () => {
  const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`;
  const page = receiptHtml(
    receipt({
      ...{
        issuer: hostile,
        paymentMethod: hostile,
        paymentReference: hostile,
        lines: [subscriptionLine(hostile, '1.00')],
      },
      customer: { accountId: 'acc-1', name: hostile, email: hostile },
    }),
  );
  expect(page).not.toMatch(/<script|<img/);
  expect(page.match(/<(\w+)/g)!.filter((tag) => !known.has(tag))).toEqual([]);
});
const known = new Set(
  'html head meta title style body main p h1 dl dt dd bdi table thead tbody tfoot tr th td'
    .split(' ')
    .map((tag) => `<${tag}`),
);

test('the page is styled under its own policy, in Chromium, and runs no script', async () => {
  const tab = await BrowserTab.open();
  try {
    const page = receiptHtml(receipt()).replace(
      '<meta charset="utf-8">',
      // The policy as a header would set it. `frame-ancestors` works only in a header.
      `<meta charset="utf-8"><meta http-equiv="content-security-policy" content="${receiptPolicy.replace(/; frame-ancestors.*/, '')}">`,
    );
    await tab.goTo(`data:text/html;base64,${Buffer.from(page).toString('base64')}`);
    expect(await tab.evaluate('getComputedStyle(document.querySelector("tfoot .total")).fontWeight')).toBe('700');
    expect(await tab.evaluate('document.title')).toBe('Receipt inv-abcdefghij0123456789');
    expect(tab.reported).toEqual([]);
  } finally {
    await tab.close();
  }
}, 90_000);

test('the PDF begins a page with the titles of the columns, numbers its pages, and is the same each time', async () => {
  const lines = Array.from({ length: 200 }, (_, i) => subscriptionLine(`A line with number ${i}`, '0.01'));
  const pdf = await receiptPdf(receipt({ lines }));
  const pages = readText(pdf).split('\f').filter(Boolean);
  expect(pages.length).toBeGreaterThan(3);
  for (const [index, page] of pages.entries()) {
    expect(page).toMatch(/Description\s+Quantity\s+Unit price\s+Amount/);
    expect(page).toContain(`${index + 1} / ${pages.length}`);
  }
  expect((await receiptPdf(receipt({ lines }))).equals(pdf)).toBe(true);
});

test('long words and long names stay within the page and its columns', async () => {
  const word = 'W'.repeat(500);
  const customer = { accountId: 'acc-1', name: word, email: `${word}@example.com` };
  const pdf = await receiptPdf(receipt({ customer, lines: [subscriptionLine(word, '1.00')] }));
  const boxes = execFileSync('pdftotext', ['-bbox', '-', '-'], { input: pdf }).toString('utf8');
  const rights = [...boxes.matchAll(/xMax="([\d.]+)"/g)].map(([, right]) => Number(right));
  expect(rights.length).toBeGreaterThan(20);
  expect(Math.max(...rights)).toBeLessThanOrEqual(546);
});

test('amounts have the digits of their currency, and quantities no superfluous ones', () => {
  expect(['1234.50', '-0.01'].map((amount) => amountText(amount, 'USD'))).toEqual(['1234.50 USD', '\u22120.01 USD']);
  expect([currencyDigits('JPY'), amountText('1234', 'JPY'), amountText('1.234', 'KWD')]).toEqual([
    ...[0, '1234 JPY', '1.234 KWD'],
  ]);
  expect(['1', '3600.000', '0.333333333333', '0.0000001'].map(quantityText)).toEqual([
    '1',
    '3600',
    '≈ 0.333333',
    '≈ 0',
  ]);
});

test('a shown text is one line of complete characters with a limited length', () => {
  expect(shownText(' \u0000a\r\nb\u200fc\ufeff ')).toBe('a b c');
  expect([...shownText('😀'.repeat(300))]).toHaveLength(200);
  expect(shownText('x\udc00y')).toBe('x\ufffdy');
});

test('only a paid invoice is called a receipt', () => {
  const titles = (['open', 'past_due', 'paid', 'void'] as const).map((status) => receiptTitle({ status }));
  expect(titles).toEqual(['Invoice', 'Invoice', 'Receipt', 'Void invoice']);
});
