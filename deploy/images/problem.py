"""The error that ends a program with one sentence, and how commands are run."""
import subprocess


class Problem(Exception):
    """One sentence for the user."""


def output_of(*command):
    """The standard output of a command, as text."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise Problem(f'the program "{command[0]}" was not found; deploy/install.sh installs it') from missing
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Problem(f'"{" ".join(command)[:200]}" failed: {last}')
    return done.stdout
