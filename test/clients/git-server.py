"""A git server over HTTP on loopback that asks for the password `secret-token`: `git-server.py PORT FOLDER`."""

import base64
import http.server
import os
import subprocess
import sys

EXPECTED = "Basic " + base64.b64encode(b"x-access-token:secret-token").decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers.get("Authorization") != EXPECTED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        more = {"GIT_PROJECT_ROOT": sys.argv[2], "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "ada"}
        request = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
        content = {"CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body))}
        coding = {"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        env = {**os.environ, **more, **request, **content, **coding}
        output = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
        head, _, rest = output.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(rest)

    do_POST = do_GET


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
