"""Print a script that lets a shell complete `muster`: commands, actions, options and their choices."""

import argparse
from typing import Final

EXAMPLES: Final = """\
eval "$(muster completion bash)"       in ~/.bashrc
eval "$(muster completion zsh)"        in ~/.zshrc, after compinit
muster completion fish | source        in ~/.config/fish/config.fish"""
SHELLS: Final = ("bash", "zsh", "fish", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode  # a command that shows its help need not wait for it

    print(shellcode(["muster"], shell=args.shell))
    return 0
