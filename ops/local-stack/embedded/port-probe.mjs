import net from 'node:net';

/**
 * Whether a listener can be bound there now.
 * @param {number} port
 * @param {string} [host]
 * @returns {Promise<boolean>}
 */
export function isPortFree(port, host = '127.0.0.1') {
  return new Promise((resolve) => {
    const probe = net.createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/**
 * @param {string} name of the port's setting
 * @param {number} port
 * @param {string} [host]
 */
export const portTakenText = (name, port, host = '127.0.0.1') => `${name}: port ${port} is taken on ${host}`;
