# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import re
from typing import Any, Sequence

from ..values import CommandResult, GitStatus, git_status
from .commands import Commands

# A helper of git that answers with the token in the environment.
_FROM_ENVIRONMENT = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$GIT_USERNAME" "$GIT_TOKEN"; }; f'
)


class Git:
    """Git in the sandbox. The template must have ``git``.

    A failure is a CommandFailedError with the message of git. ``user`` is a user of the sandbox; None: root. A command
    is killed after ``timeout`` seconds. ``token`` is for a server over HTTPS. It is passed to one command in its
    environment, and stored nowhere. Git sends it only to the scheme, host and port of the given URL or remote, also
    after a redirect. The default ``username`` is accepted by GitHub and most other servers with any token.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def clone(
        self,
        url: str,
        path: str | None = None,
        *,
        branch: str | None = None,
        depth: int | None = None,
        token: str | None = None,
        username: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Clones a repository into ``path``. The default is its name, in the home folder."""
        words = ["clone", "--quiet"]
        if branch is not None:
            words += ["--branch", branch]
        if depth is not None:
            words += ["--depth", str(depth)]
        words += ["--", url, *([] if path is None else [path])]
        self._run(words, url=url, token=token, username=username, user=user, timeout=timeout)

    def status(self, path: str, *, user: str | None = None, timeout: float | None = None) -> GitStatus:
        words = ["-C", path, "status", "--porcelain=v1", "--branch", "--untracked-files=all", "-z"]
        return git_status((self._run(words, user=user, timeout=timeout)).stdout)

    def commit(
        self,
        path: str,
        message: str,
        *,
        author: str | None = None,
        files: Sequence[str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Commits changes and returns the id of the commit.

        ``author`` is ``Name <address>``; None: that of the configuration of git. Without ``files`` all changes of the
        repository are committed, with new files.
        """
        more: dict[str, Any] = {"user": user, "timeout": timeout}
        chosen = [] if files is None else ["--", *files]
        self._run(["-C", path, "add", *(chosen or ["--all"])], **more)
        identity: list[str] = []
        if author is not None:
            found = re.fullmatch(r"([^<>]*?) *<([^<>]*)>", author)
            name, address = found.groups() if found else (author, "")
            identity = ["-c", f"user.name={name}", "-c", f"user.email={address}"]
        self._run([*identity, "-C", path, "commit", "--quiet", f"--message={message}", *chosen], **more)
        return (self._run(["-C", path, "rev-parse", "HEAD"], **more)).stdout.strip()

    def push(
        self,
        path: str,
        *,
        remote: str = "origin",
        branch: str = "HEAD",
        token: str | None = None,
        username: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Pushes a branch. The default is the current one."""
        words = ["-C", path, "push", "--quiet", "--", remote, branch]
        url = remote
        if token is not None and _server_of(remote) is None:
            # It fails if `remote` is a path, which needs no token.
            ask = ["git", "-C", path, "remote", "get-url", "--push", "--", remote]
            url = (self._commands.run(ask, user=user, timeout=timeout)).stdout
        self._run(words, url=url, token=token, username=username, user=user, timeout=timeout)

    def _run(
        self,
        words: Sequence[str],
        *,
        url: str = "",
        token: str | None = None,
        username: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        envs = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
        helper: list[str] = []
        server = _server_of(url)
        if token is not None and server is not None:
            # The first helper is empty, so no other helper stores the token. Git asks the second one only for this
            # server.
            helper = ["-c", "credential.helper=", "-c", f"credential.{server}.helper={_FROM_ENVIRONMENT}"]
            envs.update({"GIT_USERNAME": username or "x-access-token", "GIT_TOKEN": token})
        return self._commands.run(
            ["git", *helper, *words], envs=envs, user=user, timeout=timeout, check=True
        )


def _server_of(url: str) -> str | None:
    """The scheme, host and port of a URL, as git matches them. A ``*`` would match other hosts."""
    found = re.match(r"(https?://)(?:[^/?#@]*@)?([^/?#@*=\s]+)(?=[/?#\s]|$)", url, re.IGNORECASE)
    return found and found[1] + found[2]
