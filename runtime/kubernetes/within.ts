/** Waits for a request for a limited time. The request itself continues afterwards. @throws {Error} after the time */
export async function within<Answer>(work: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('the API server did not answer in time')), timeoutMs);
  work.catch(() => {});
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
