import { ApiException } from '@kubernetes/client-node';

/** Whether a change that names a uid failed because the object is gone, or because another object has its name now. */
export const isGone = (error: unknown) => error instanceof ApiException && (error.code === 404 || error.code === 409);

/** Whether a quota of the namespace refused the object. */
export const isOverQuota = (error: unknown) =>
  error instanceof ApiException && error.code === 403 && /exceeded quota/.test(error.message);
