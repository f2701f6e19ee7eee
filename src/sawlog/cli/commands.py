"""The `sawlog` command group, which imports each command when it is called, and error handling.

An error is one line on stderr: what happened, what was expected, what to do.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import click

from sawlog import __version__
from sawlog.cli.exit_codes import INTERRUPTED, USAGE
from sawlog.cli.standard_streams import discard_output, writing_output

# Name, module and help line, so that `sawlog --help` imports no command.
_COMMANDS = {
    "backup": ("sawlog.cli.backup", "Create, verify and restore backups of topics."),
    "broker": ("sawlog.cli.broker", "Run one broker."),
    "cluster": ("sawlog.cli.cluster", "Show a cluster, elect leaders, move replicas."),
    "configs": ("sawlog.cli.configs", "Show and change settings of topics, brokers and groups."),
    "consume": ("sawlog.cli.consume", "Print the records of a topic."),
    "disk": ("sawlog.cli.disk", "Show the disk space that topics take."),
    "groups": ("sawlog.cli.groups", "Show, reset and delete consumer groups."),
    "log": ("sawlog.cli.log", "Dump and verify segment files, without a broker."),
    "move-to-zookeeper": (
        "sawlog.cli.move_to_zookeeper",
        "Move a stopped broker's metadata to ZooKeeper.",
    ),
    "pipeline": ("sawlog.cli.pipeline", "Land topics in Delta tables, exactly once."),
    "produce": ("sawlog.cli.produce", "Send lines to a topic as records."),
    "simulate": ("sawlog.cli.simulate", "Run a simulated cluster under faults, from a seed."),
    "topics": ("sawlog.cli.topics", "Create, list, describe, delete and alter topics."),
    "transactions": ("sawlog.cli.transactions", "Show transactions, abort hanging ones."),
    "up": ("sawlog.cli.up", "Run a local cluster: ZooKeeper and several brokers."),
    "zookeeper": ("sawlog.cli.zookeeper", "Run one ZooKeeper server."),
}


class LazyGroup(click.Group):
    """A command group that imports a command's module when it is called, to start brokers fast.

    If the reader of stdout exits early (`| head`), the command exits with 0.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        with _killed_by_interrupts():
            module = import_module(_COMMANDS[cmd_name][0])
            command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            with writing_output():  # --help and --version print here
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
def _killed_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C kill the process during an import.

    A KeyboardInterrupt raised there can be swallowed by a callback, or leave a class body as a
    RuntimeError.
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
    epilog="Exit codes: 0 success; 1 the operation failed; 2 wrong usage; 3 no broker (or"
    " ZooKeeper) could be reached, or it stopped responding; 130 interrupted.",
)
@click.version_option(__version__, prog_name="sawlog", message="%(prog)s %(version)s")
def cli() -> None:
    """Sawlog: a Kafka-compatible broker, its tools, and a pipeline to Delta tables."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
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
            return INTERRUPTED  # raised in a class body, by an import inside the command
        from sawlog.cli.error_messages import explain

        explained = explain(error)
        if explained is None:
            raise
        return _fail(*explained)
    return code if isinstance(code, int) else 0


def _show_usage_error(error: click.UsageError) -> None:
    """Print the error in one line, or the help if a subcommand is missing."""
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
