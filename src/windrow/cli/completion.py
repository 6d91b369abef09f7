"""`windrow completion`: what a shell has to know to complete commands and options."""

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")
_ASKED_BY: Final = "_WINDROW_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a SHELL complete the commands and options of windrow.

    \b
    Examples:
      windrow completion bash > ~/.local/share/bash-completion/completions/windrow
      windrow completion zsh > ~/.zfunc/_windrow       # a folder of fpath, before compinit
      windrow completion fish > ~/.config/fish/completions/windrow.fish

    \b
    For this session of bash alone:
      eval "$(windrow completion bash)"
    """
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - for the type's sake
    click.echo(made(context.find_root().command, {}, "windrow", _ASKED_BY).source())
