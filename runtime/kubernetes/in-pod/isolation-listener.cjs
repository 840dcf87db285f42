// Usage: isolation-listener.cjs <port> <word>. Answers each connection with the word.
const net = require('node:net');

const [port, word] = process.argv.slice(2);
const server = net.createServer((socket) => {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(2000, () => socket.destroy());
  socket.end(word);
});
server.listen(Number(port));
