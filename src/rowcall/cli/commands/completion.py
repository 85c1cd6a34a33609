"""`rowcall completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    bash: eval "$(rowcall completion bash)"                          in ~/.bashrc
    zsh:  eval "$(rowcall completion zsh)"                           in ~/.zshrc
    fish: rowcall completion fish > ~/.config/fish/completions/rowcall.fish
    """
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root, {}, "rowcall", "_ROWCALL_COMPLETE").source())
