import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import nodemailer from 'nodemailer';
import type { Logger } from 'pino';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import type { MailMessage } from './message.ts';

/** The SMTP server refuses this mail permanently, so another attempt cannot succeed. */
export class MailRejectedError extends Error {
  override name = 'MailRejectedError';
}

export interface Mailer {
  /**
   * Returns when the server has accepted the mail.
   * @throws {MailRejectedError}
   * @throws {Error} when another attempt may succeed
   */
  send(mail: MailMessage, signal: AbortSignal): Promise<void>;
}

export interface MailerSettings {
  SMTP_URL?: string | undefined;
  PLATFORM_MAIL_FROM: string;
  PLATFORM_DATA_DIR: string;
}

/** Sends through the SMTP server of the settings. Without one, stores mails as files. */
export function createMailer(settings: MailerSettings, logger: Logger): Mailer {
  return settings.SMTP_URL
    ? smtpMailer(settings.SMTP_URL, settings.PLATFORM_MAIL_FROM)
    : fileMailer(path.join(settings.PLATFORM_DATA_DIR, 'mails'), settings.PLATFORM_MAIL_FROM, logger);
}

/** The time limit of one step of the SMTP conversation. The caller's signal limits the whole conversation. */
export const connectMs = 10_000;
export const silenceMs = 30_000;

function smtpMailer(url: string, from: string): Mailer {
  const transport = nodemailer.createTransport({
    url,
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    dnsTimeout: connectMs,
    socketTimeout: silenceMs,
  });
  return {
    async send(mail, signal) {
      try {
        await transport.sendMail({ ...fields(mail, from), signal });
      } catch (error) {
        if (isRejection(error)) throw new MailRejectedError('The SMTP server rejects the mail', { cause: error });
        throw error;
      }
    },
  };
}

/** The name of the file is derived from the mail's id, so repeated attempts leave one file. */
function fileMailer(folder: string, from: string, logger: Logger): Mailer {
  const transport = nodemailer.createTransport({ streamTransport: true, buffer: true });
  return {
    async send(mail, signal) {
      const { message } = await transport.sendMail({ ...fields(mail, from), signal });
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const file = path.join(folder, `${mail.id}.eml`);
      await writeFileDurably(file, message.toString());
      logger.info({ file }, 'SMTP_URL is not set: a mail is stored as a file');
    },
  };
}

function fields({ id, to, subject, text, html }: MailMessage, from: string) {
  return {
    from,
    to,
    subject,
    text,
    html: html.text,
    messageId: `<${id}@${/@([^\s>]+)>?$/.exec(from)![1]}>`,
    // Suppresses out-of-office replies, because no person would read them.
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** Whether the sender, receiver or text was refused with a permanent code (RFC 5321, section 4.2.1). */
function isRejection(error: unknown): boolean {
  const { code, responseCode } = error as { code?: string; responseCode?: number };
  return (code === 'EENVELOPE' || code === 'EMESSAGE') && responseCode !== undefined && responseCode >= 500;
}
