import type { DataOf } from '../../api/client.ts';

export type Invoice = DataOf<'getInvoice'>;

/** What each status of an invoice means for the account. */
export const meaningOfStatus: Readonly<Record<Invoice['status'], string>> = {
  draft:
    'It shows what the period costs so far. It is not due, and changes with the usage. It is issued an hour after the period has ended.',
  open: 'It is issued. The balance pays first, and the rest is charged to the default card. A charge that fails is tried again after 1, 3, 5 and 7 days.',
  paid: 'It is fully paid.',
  past_due:
    'Every attempt to charge it has failed. New sandboxes and resumes are refused until it is paid. It is charged again at once when you add a card, choose another default card, or get credit.',
  void: 'It was made for a change of the plan that did not happen. Nothing is due.',
};
