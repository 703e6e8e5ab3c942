"""Writes the object of this name to standard output: python3 fetch.py /lab/run7"""

import shutil
import sys

import namely


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: fetch.py NAME")
    name = sys.argv[1]
    with namely.Consumer(name) as consumer, consumer.open(name) as file:
        shutil.copyfileobj(file, sys.stdout.buffer)


if __name__ == "__main__":
    try:
        main()
    except namely.Error as error:
        sys.exit(str(error))
