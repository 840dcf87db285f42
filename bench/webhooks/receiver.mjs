import http from 'node:http';

/** A fast receiver in its own process. It reports received events, with their times, to its parent in batches. */
let came = [];
const server = http.createServer((request, response) => {
  const id = request.headers['webhook-id'];
  request.resume();
  request.on('end', () => {
    came.push([id, Date.now()]);
    response.end();
  });
});
setInterval(() => {
  if (came.length > 0) process.send(came);
  came = [];
}, 5);
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
