import { ForeignKeyConstraintViolationException, UniqueConstraintViolationException } from '@mikro-orm/postgresql';
import { AppError, type ErrorCode } from '../../domain/errors.ts';

/** The error for each constraint that a caller's request can violate, by the constraint's name. */
export const constraintErrors: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  users_email: { code: 'email_taken', message: 'A user with this e-mail address already exists' },
  users_username: { code: 'username_taken', message: 'Another user of the account has this user name' },
  users_identity: { code: 'email_taken', message: 'A user with this identity already exists' },
  projects_name: { code: 'project_name_taken', message: 'Another of your projects has this name' },
  api_keys_name: { code: 'api_key_name_taken', message: 'Another of your API keys has this name' },
  templates_name: { code: 'template_name_taken', message: 'Another template of the account has this name' },
  budgets_account: { code: 'budget_exists', message: 'The account has a budget already; change or delete that one' },
  import_jobs_active: { code: 'import_in_progress', message: 'An import of this template is running' },
  sandboxes_project_id_fkey: { code: 'not_found', message: 'Project not found' },
};

/** The caller's error when a write violates a constraint. Null: no violation, or one that no request should cause. */
export function constraintError(error: unknown): AppError | null {
  const name = violatedConstraint(error);
  if (name === null || !Object.hasOwn(constraintErrors, name)) return null;
  const { code, message } = constraintErrors[name]!;
  return new AppError(code, message, { cause: error });
}

/** Whether the error means that a row with the same id or another unique value already exists. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof UniqueConstraintViolationException;
}

function violatedConstraint(error: unknown): string | null {
  const isViolation =
    error instanceof UniqueConstraintViolationException || error instanceof ForeignKeyConstraintViolationException;
  return isViolation ? ((error as { constraint?: string }).constraint ?? null) : null;
}
