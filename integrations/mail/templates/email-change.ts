import { DateTime } from 'luxon';
import type { EmailSide } from '../../../domain/accounts/email-change.ts';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** The mail with a link to confirm a change of an account's e-mail address. Both addresses get one. */
export function emailChangeMail(change: {
  side: EmailSide;
  currentEmail: string;
  newEmail: string;
  url: string;
  expiresAt: Date;
}): MailContent {
  const until = DateTime.fromJSDate(change.expiresAt, { zone: 'utc' }).toFormat("HH:mm 'UTC'");
  const { currentEmail, newEmail } = change;
  return writeLetter({
    subject:
      change.side === 'current' ? 'Confirm the change of your e-mail address' : 'Confirm your new e-mail address',
    greets: change.side === 'current' ? currentEmail : newEmail,
    before: [`The e-mail address of an account is to change from ${currentEmail} to ${newEmail}.`],
    button: { label: 'Confirm the change', url: change.url },
    after: [
      `Both addresses have to confirm. The link works once, until ${until}.`,
      'If you did not request this change, do nothing: the address will not change.',
    ],
  });
}
