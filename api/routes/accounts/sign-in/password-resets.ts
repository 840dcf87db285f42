import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import type { Logger } from 'pino';
import { passwordResetSeconds } from '../../../../domain/accounts/password-reset.ts';
import { AppError } from '../../../../domain/errors.ts';
import type { UserId } from '../../../../domain/ids.ts';
import { type PasswordResetInput, workflowKinds } from '../../../../domain/workflow-registry.ts';
import { startOptions } from '../../../../platform/temporal/workflow-starts.ts';

/** Mails links to set new passwords. */
export interface PasswordResets {
  /**
   * Mails a link to a user.
   * @throws {AppError} `password_reset_pending` while the previous link works; `temporarily_unavailable`
   */
  request(user: PasswordResetInput): Promise<void>;
  /** Allows the next reset. If this fails, the limit ends when the link expires. */
  passwordWasSet(userId: UserId): void;
}

/** Holds no state: the running workflow of a user limits the user to one link at a time. */
export class TemporalPasswordResets implements PasswordResets {
  readonly #client: Client;
  readonly #logger: Logger;

  constructor(deps: { client: Client; logger: Logger }) {
    this.#client = deps.client;
    this.#logger = deps.logger;
  }

  async request(user: PasswordResetInput): Promise<void> {
    try {
      await this.#client.workflow.start('passwordReset', startOptions('passwordReset', user.userId, user));
    } catch (error) {
      const isPending = error instanceof WorkflowExecutionAlreadyStartedError;
      throw isPending ? await this.#pending(user.userId).catch(unavailable) : unavailable(error);
    }
  }

  passwordWasSet(userId: UserId): void {
    this.#client.workflow
      .getHandle(formatWorkflowId(userId))
      .signal('passwordSet')
      .catch((error) => {
        if (error instanceof WorkflowNotFoundError) return;
        this.#logger.warn({ err: error, userId }, 'the workflow of a used password reset could not be ended');
      });
  }

  async #pending(userId: UserId): Promise<AppError> {
    const { startTime } = await this.#client.workflow.getHandle(formatWorkflowId(userId)).describe();
    const secondsLeft = passwordResetSeconds - (Date.now() - startTime.getTime()) / 1000;
    const minutes = Math.min(30, Math.max(1, Math.ceil(secondsLeft / 60)));
    return new AppError(
      'password_reset_pending',
      `A link was already mailed; you can request another in ${minutes} min`,
      { data: { time_remaining_minutes: minutes } },
    );
  }
}

const unavailable = (cause: unknown) =>
  new AppError('temporarily_unavailable', 'No mail can be sent now; try again later', { cause });

const formatWorkflowId = workflowKinds.passwordReset.workflowId;
