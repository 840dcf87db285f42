"""A git server over HTTP on loopback that asks for the password `secret-token`: `git-server.py PORT FOLDER`.

`/to/PORT/…` redirects to another port, and `/then-to/PORT/…` does so when it has got the password. `/seen` tells the
numbers of requests and of those that had an `Authorization`.
"""

import base64
import http.server
import json
import os
import re
import subprocess
import sys

EXPECTED = "Basic " + base64.b64encode(b"x-access-token:secret-token").decode()


seen = {"requests": 0, "authorized": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/seen":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(seen).encode())
            return
        seen["requests"] += 1
        seen["authorized"] += "Authorization" in self.headers
        redirect = re.match(r"/(to|then-to)/(\d+)(/.*)", self.path)
        if redirect and (redirect[1] == "to" or self.headers.get("Authorization") == EXPECTED):
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{redirect[2]}{redirect[3]}")
            self.end_headers()
            return
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
