import { DateTime } from 'luxon';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** The mail with a link to set a new password. */
export function passwordResetMail(reset: { name: string; url: string; expiresAt: Date }): MailContent {
  const until = DateTime.fromJSDate(reset.expiresAt, { zone: 'utc' }).toFormat("HH:mm 'UTC'");
  return writeLetter({
    subject: 'Set a new password',
    greets: reset.name,
    before: ['Someone, probably you, requested a new password for your account.'],
    button: { label: 'Set a new password', url: reset.url },
    after: [
      `The link works once, until ${until}.`,
      'If you did not request it, do nothing: your password will not change.',
    ],
  });
}
