import http from 'node:http';

/** A fast receiver in a process of its own: tells its parent which events came, with the time, some at once. */
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
