"""Publishes standard input as NAME for SECONDS: python3 publish.py /lab/run7 60 < file"""

import sys
import time

import namely


def main() -> None:
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        sys.exit("usage: publish.py NAME SECONDS < FILE")
    name, seconds = sys.argv[1:]
    with namely.Producer(name) as producer:
        print(producer.publish(name, sys.stdin.buffer.read()).name, flush=True)
        time.sleep(int(seconds))


if __name__ == "__main__":
    try:
        main()
    except namely.Error as error:
        sys.exit(str(error))
