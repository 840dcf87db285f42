import http from 'node:http';

/** The reference: a minimal proxy of node:http. `bare-proxy.ts <target port>`; prints its own port. */
const port = Number(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 256 });
const server = http.createServer((request, response) => {
  const { url: path, method, headers } = request;
  const forwarded = http.request({ host: '127.0.0.1', port, path, method, headers, agent }, (answer) => {
    response.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(response);
  });
  forwarded.on('error', () => response.destroy());
  request.pipe(forwarded);
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as { port: number }).port));
