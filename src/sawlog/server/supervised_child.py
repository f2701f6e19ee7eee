"""Runs a command that the kernel kills when its supervisor ends: SUPERVISOR COMMAND ARGUMENTS...

SUPERVISOR is the supervisor's process id. The command takes the place of this process.
"""

import os
import sys

from sawlog.server.parent_death import end_with_parent


def main(arguments: list[str]) -> None:
    supervisor, *command = arguments
    end_with_parent(int(supervisor))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
