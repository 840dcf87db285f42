import { ApiException } from '@kubernetes/client-node';

/** After a change that names a uid: the object is gone, or another one has its name. */
export const isGone = (error: unknown) => error instanceof ApiException && (error.code === 404 || error.code === 409);

/** A quota of the namespace refuses the object. */
export const isOverQuota = (error: unknown) =>
  error instanceof ApiException && error.code === 403 && /exceeded quota/.test(error.message);
