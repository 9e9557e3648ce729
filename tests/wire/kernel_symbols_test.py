#!/usr/bin/env python3
"""Kernels compiled for x86-64-v3 define no symbol that another object of the program may define, too: the linker keeps one copy of such
a function, and it could be the one that older processors cannot run (src/wire/kernels.inl).

    kernel_symbols_test.py LIBRARY NM
"""
import subprocess
import sys


def shared_symbols(listing):
    """Weak, common and unique symbols in the output of nm."""
    return [line for line in listing.splitlines() if len(line.split()) >= 3 and line.split()[1] in "WVuC"]


def main():
    library, nm = sys.argv[1:]
    listing = subprocess.run([nm, "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert shared_symbols("0000000000000000 W _ZN3foo3barEv") and not shared_symbols("0000000000000000 t _ZN3foo3barEv")
    assert " D " in listing or " R " in listing, "no table of kernels in " + library
    found = shared_symbols(listing)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
