import { apiFloods } from '../../api/floods/api-floods.ts';
import { FloodingClient, floodKinds } from '../floods/flooding-clients.ts';

/**
 * `flood.ts <name> <port of the gateway or of the API>`: sends this flood from the message `start` to the message
 * `stop`.
 */
const [name, port] = process.argv.slice(2);
const flood = [...floodKinds, ...apiFloods].find((each) => each.name === name);
if (!flood) throw new Error(`there is no flood ${name}`);
const client = new FloodingClient(flood, Number(port));
process.on('disconnect', () => process.exit(0));
process.on('message', (message) => {
  if (message === 'start') return client.start();
  client.stop();
  // The last connections add their bytes when they close.
  setTimeout(() => process.send!({ closed: client.closed, bytesSent: client.bytesSent }), 200);
});
process.send!('ready');
