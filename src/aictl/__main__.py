"""The command line: global options, and the commands by name.

Commands are imported when they are used: ``aictl inspect`` needs no cluster and must not pay for one.
"""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "chat": "aictl.chat:chat",
    "inspect": "aictl.inspect:inspect",
    "models": "aictl.commands:models",
    "retry": "aictl.commands:retry",
    "upload": "aictl.upload:upload",
    "wait": "aictl.commands:wait",
    "why": "aictl.why:why",
}

_FAILED, _INTERRUPTED = 1, 130


class _Group(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command, imported now."""
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is no command")
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C is an end of its own, and so is what nobody thought of."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("aictl: interrupted", err=True)
            ctx.exit(_INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("verbose"):
                raise
            said = f"{type(error).__name__}: {error}".rstrip(": ")
            click.echo(f"aictl: This went wrong unexpectedly ({said}). With -v there is more.", err=True)
            ctx.exit(_FAILED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ai-modules", prog_name="aictl")
@click.option("-q", "--quiet", is_flag=True, help="Say the result alone.")
@click.option("-v", "--verbose", is_flag=True, help="Say what lies behind an error.")
def main(*, quiet: bool, verbose: bool) -> None:
    """Models for Kubernetes: look into a file, upload it, wait for it, talk to what serves it.

    Exit codes: 0 done, 1 failed, 2 wrong use or not a model, 3 cannot succeed as things are, 4 not allowed,
    5 time is over, 130 interrupted.
    """
    del quiet, verbose  # read from the context by those whom they concern


if __name__ == "__main__":
    main()
