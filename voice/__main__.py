"""``python -m voice``: the same as the ``voice`` command."""

from voice.cli import entry

if __name__ == "__main__":
    entry()
