import { AppError } from '../../domain/errors.ts';

/** The status of a failure for clients of E2B. To them, a sandbox that has ended does not exist. */
export function e2bStatus({ code, status }: AppError): number {
  return code === 'sandbox_ended' ? 404 : status;
}

/** A request that E2B's platform can answer and this one cannot. @param why a whole sentence */
export function notSupported(why: string): AppError {
  return new AppError('not_supported', why);
}
