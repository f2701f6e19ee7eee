"""The group of commands, each imported when it is called, and what becomes of an error.

An error is one line on stderr: what happened, what was expected, what to do. Exit codes: 0 done,
1 the work failed, 2 the call was wrong, 3 no broker reached or it stopped answering, 130 Ctrl-C.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import click

from sawlog import __version__
from sawlog.cli.standard_streams import discard_output, writing_output

FAILED = 1
USAGE = 2
INTERRUPTED = 130

# Name, module, and what --help lists, so that listing imports none of them.
_COMMANDS = {
    "broker": ("sawlog.cli.broker", "Run one broker."),
    "consume": ("sawlog.cli.consume", "Print the records of a topic."),
    "groups": ("sawlog.cli.groups", "List, describe and delete groups; lag, offsets."),
    "log": ("sawlog.cli.log", "Look into segment files, and check them."),
    "pipeline": ("sawlog.cli.pipeline", "Land topics in Delta tables, exactly once."),
    "produce": ("sawlog.cli.produce", "Send lines to a topic as records."),
    "topics": ("sawlog.cli.topics", "Create, list, describe, delete and alter topics."),
}


class LazyGroup(click.Group):
    """Imports a command's module when it is called: starting a broker pays for nothing else.

    A reader of the output that has seen enough (`| head`) ends a command well, whichever it is.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        with _ending_at_once():
            command = getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Prints --help and --version, too."""
        try:
            with writing_output():
                return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise _reader_left() from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            with writing_output():
                return result
        except BrokenPipeError:
            raise _reader_left() from None


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process during an import: a KeyboardInterrupt that is raised in there may be
    swallowed by a callback, or come out of a class body as a RuntimeError.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if interrupt is not signal.default_int_handler or not is_main:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)


def _reader_left() -> click.exceptions.Exit:
    discard_output()
    return click.exceptions.Exit(0)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 the work failed; 2 the call was wrong; 3 no broker could be"
    " reached, or it stopped answering; 130 interrupted.",
)
@click.version_option(__version__, prog_name="sawlog", message="%(prog)s %(version)s")
def cli() -> None:
    """Sawlog: a log broker that speaks Kafka's protocol, and its tools."""


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a call."""
    try:
        code = cli.main(args=arguments, prog_name="sawlog", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.UsageError as error:
        _show_usage_error(error)
        return USAGE
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED  # it came while a class was made, in an import of the command's own
        from sawlog.cli.exit_codes import explain

        explained = explain(error)
        if explained is None:
            raise
        return _fail(*explained)
    return code if isinstance(code, int) else 0


def _show_usage_error(error: click.UsageError) -> None:
    """In one line; a call without a command gets the help that it needs."""
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return
    path = error.ctx.command_path if error.ctx is not None else "sawlog"
    sentence = " ".join(message.split()).rstrip(".?")
    click.echo(f"{path}: {sentence}; see {path} --help", err=True)


def _fail(message: str, code: int) -> int:
    click.echo(f"sawlog: {message}", err=True)
    return code
