"""The checksum is the one of the package, without what the package brings along."""

import subprocess
import sys

import crc32c as package

from sawlog.protocol.checksum import crc32c


def test_it_is_the_one_of_the_package() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    view = memoryview(b"-123456789")[1:]
    assert crc32c(view, 7) == package.crc32c(b"123456789", 7)


def test_a_broker_starts_without_reading_versions_of_packages() -> None:
    program = "import sys, sawlog.server.broker_process; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
