"""The checksum function is that of `crc32c`, without importing the whole package."""

import subprocess
import sys

import crc32c as package

from sawlog.protocol.checksum import crc32c


def test_the_function_is_that_of_the_package() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    view = memoryview(b"-123456789")[1:]
    assert crc32c(view, 7) == package.crc32c(b"123456789", 7)


def test_importing_it_does_not_import_importlib_metadata() -> None:
    program = "import sys, sawlog.server.broker_process; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
