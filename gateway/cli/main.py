"""`finport`: the gateway on the command line. Heavy imports are in the commands that need them.

Exit codes: 0 success, 1 failure, 2 usage error.
"""

import click

from gateway.cli.call import call
from gateway.cli.doctor import doctor
from gateway.cli.keys import keys
from gateway.cli.manifests import manifests
from gateway.cli.mcp import mcp
from gateway.cli.quota import quota
from gateway.cli.serve import serve
from gateway.cli.settings import settings
from gateway.cli.snapshot import snapshot
from gateway.cli.tools import tools
from gateway.cli.usage import usage
from gateway.cli.world import world
from manifests.common.terminal import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="finport")
def main() -> None:
    """Finport: the gateway through which LLM agents reach finance tools."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what lets a SHELL complete commands, tools and arguments.

    For bash, add to ~/.bashrc: eval "$(finport completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - of these three shells
    click.echo(kind(main, {}, "finport", "_FINPORT_COMPLETE").source())


for _command in (
    *(call, completion, doctor, keys, manifests, mcp, quota),
    *(serve, settings, snapshot, tools, usage, world),
):
    main.add_command(_command)


if __name__ == "__main__":
    main()
