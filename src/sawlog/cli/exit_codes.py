"""The exit codes of all commands; 0 is success. README lists them for users."""

FAILED = 1  # the operation failed: a broker refused it, a file is damaged
USAGE = 2  # an option, an argument or a setting is invalid; nothing was done
NO_BROKER = 3  # no broker could be reached, or it stopped responding; as NO_ZOOKEEPER of server/
INTERRUPTED = 130  # Ctrl-C
