import { DateTime } from 'luxon';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** The mail with a link for a new user to set a first password. */
export function invitationMail(invitation: {
  name: string;
  address: string;
  url: string;
  expiresAt: Date;
}): MailContent {
  const until = DateTime.fromJSDate(invitation.expiresAt, { zone: 'utc' }).toFormat("d LLLL yyyy, HH:mm 'UTC'");
  return writeLetter({
    subject: 'Your account is ready',
    greets: invitation.name,
    before: ['An account has been made for you. Set a password to sign in.', `You sign in as ${invitation.address}.`],
    button: { label: 'Set a password', url: invitation.url },
    after: [
      `The link works once, until ${until}. After that, request another one with "forgot password".`,
      'If you did not expect this mail, do nothing.',
    ],
  });
}
