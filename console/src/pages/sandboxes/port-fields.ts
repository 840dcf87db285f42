/** What forms say about the fields of a port. */
export const portLabels = {
  service_port: 'Port of the server, if another',
  is_protected: 'Needs the access token',
};

export const portHelp = {
  port: 'The number in the address.',
  name: 'Unique in the sandbox.',
  protocol: 'TCP is also for HTTP, WebSocket and gRPC. WEBRTC is TCP for signalling, with a TURN server for the media.',
  service_port: 'The port on which the server in the sandbox listens.',
  is_protected: 'Without, the port is public on the internet.',
};
