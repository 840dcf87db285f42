"""Makes a context and runs code in it over binary Connect. Prints what it read as one line of JSON.

Arguments: the agent's address (host:port) and its access token. The generated module is on PYTHONPATH.
"""

import http.client
import json
import struct
import sys

import contexts_pb2 as messages

address, token = sys.argv[1:]
agent = http.client.HTTPConnection(address, timeout=60)


def call(procedure, content_type, body):
    headers = {
        "Content-Type": content_type,
        "Connect-Protocol-Version": "1",
        "Authorization": "Bearer root",
        "X-Access-Token": token,
    }
    agent.request("POST", f"/sandboxagent.{procedure}", body, headers)
    reply = agent.getresponse()
    content = reply.read()
    if reply.status != 200:
        raise SystemExit(f"{procedure}: {reply.status} {content!r}")
    return content


def envelopes(stream):
    """The messages of a Connect stream; its last envelope (flag 2) holds the error, if there is one."""
    while stream:
        flags, length = struct.unpack(">BI", stream[:5])
        payload, stream = stream[5 : 5 + length], stream[5 + length :]
        if not flags & 2:
            yield messages.ExecuteResponse.FromString(payload)
        elif "error" in json.loads(payload):
            raise SystemExit(payload.decode())


asked = messages.CreateContextRequest(language="bash", cwd="/tmp").SerializeToString()
context = messages.Context.FromString(call("ContextService/CreateContext", "application/proto", asked))
code = messages.ExecuteRequest(context_id=context.id, code="echo hello; sleep 0.01").SerializeToString()
framed = struct.pack(">BI", 0, len(code)) + code
events = list(envelopes(call("ExecutionService/Execute", "application/connect+proto", framed)))
result = events[-1].result
print(
    json.dumps(
        {
            "cwd": context.cwd,
            "createdAt": context.created_at.ToMilliseconds(),
            "stdout": "".join(event.stdout.content for event in events),
            "startedAt": result.started_at.ToMilliseconds(),
            "finishedAt": result.finished_at.ToMilliseconds(),
        }
    )
)
