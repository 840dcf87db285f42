import { useParams } from '@tanstack/react-router';
import { operationUrl } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { At, Copyable, Facts, Status } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { InvoiceLines } from './invoice-lines.tsx';
import { InvoicePayment } from './invoice-payment.tsx';
import { type Invoice, meaningOfStatus } from './invoice-statuses.ts';

export function Page() {
  const { invoiceId = '' } = useParams({ strict: false });
  return <InvoicePage key={invoiceId} invoiceId={invoiceId} />;
}

function InvoicePage({ invoiceId }: { invoiceId: string }) {
  const read = useRead('getInvoice', { path: { invoice_id: invoiceId } });
  return (
    <PageBody
      title={`Invoice ${visibleText(invoiceId)}`}
      above={{ to: '/billing', label: 'Billing' }}
      actions={read.data?.has_receipt && <Receipt invoiceId={invoiceId} />}
    >
      <Loaded read={read}>
        {(invoice) => (
          <>
            <p className="note">
              <Status status={invoice.status} /> {meaningOfStatus[invoice.status]}
            </p>
            <div className="columns">
              <Section title="Invoice">
                <InvoiceFacts invoice={invoice} />
              </Section>
              <InvoicePayment invoice={invoice} />
            </div>
            <InvoiceLines invoice={invoice} />
          </>
        )}
      </Loaded>
    </PageBody>
  );
}

function Receipt({ invoiceId }: { invoiceId: string }) {
  const addressOf = (format: 'pdf' | 'html') =>
    operationUrl('getReceipt', { path: { invoice_id: invoiceId }, query: { format } });
  return (
    <>
      <a className="button" href={addressOf('html')}>
        Receipt as a page
      </a>
      <a className="button primary" href={addressOf('pdf')}>
        Receipt as PDF
      </a>
    </>
  );
}

function InvoiceFacts({ invoice }: { invoice: Invoice }) {
  return (
    <Facts
      rows={[
        ['Id', <Copyable key="id" text={invoice.invoice_id} label="Invoice id" />],
        ['Account', <code key="account">{invoice.account_id}</code>],
        ['Period from', <At key="start" at={invoice.billing_period_start} />],
        ['to', <At key="end" at={invoice.billing_period_end} />],
        ['Total', formatMoney(invoice.total_amount, invoice.currency)],
        invoice.issued_at !== null && ['Issued', <At key="issued" at={invoice.issued_at} />],
        invoice.due_date !== null && ['Due', <At key="due" at={invoice.due_date} />],
        invoice.paid_at !== null && ['Paid', <At key="paid" at={invoice.paid_at} />],
      ]}
    />
  );
}
