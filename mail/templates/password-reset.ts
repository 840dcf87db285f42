import { DateTime } from 'luxon';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** Leads to the page where the reader sets a new password. */
export function passwordResetMail(reset: { name: string; url: string; expiresAt: Date }): MailContent {
  const until = DateTime.fromJSDate(reset.expiresAt, { zone: 'utc' }).toFormat("HH:mm 'UTC'");
  return writeLetter({
    subject: 'Set a new password',
    greets: reset.name,
    before: ['Someone, probably you, asked for a new password for your account.'],
    button: { label: 'Set a new password', url: reset.url },
    after: [
      `The link works once, until ${until}.`,
      'If you did not ask for it, do nothing: your password stays as it is.',
    ],
  });
}
