/**
 * Tells systemd that this process is ready, if a unit with `Type=notify` started it: sd_notify(3). systemd only accepts
 * this from the unit's main process.
 * @throws {Error} when the message cannot be sent
 */
export async function reportReady(): Promise<void> {
  if (!process.env.NOTIFY_SOCKET) return;
  // Imported on demand, because it loads a native library. Node has no datagram sockets of the kind that systemd uses.
  const { default: koffi } = await import('koffi');
  const notify = koffi.load('libsystemd.so.0').func('int sd_notify(int, const char *)');
  const result: number = notify(0, 'READY=1');
  if (result <= 0) throw new Error(`systemd could not be told that this process is ready: error ${-result}`);
}
