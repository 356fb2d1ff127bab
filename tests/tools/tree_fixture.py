"""A small git repository for one test of a tool."""

import subprocess


def git(root, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=m"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def make_tree(root, files):
    """Writes {path: text or bytes} under `root` as a git repository with one commit."""
    for path, content in files.items():
        write_file(root, path, content)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start", "--allow-empty")
    return root


def write_file(root, path, content):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
