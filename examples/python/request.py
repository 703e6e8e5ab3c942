"""Sends TEXT to the service of this name, and prints the reply: python3 request.py /lab/shout hello"""

import sys

import namely


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: request.py NAME TEXT")
    name, text = sys.argv[1:]
    with namely.Consumer(name) as consumer:
        print(consumer.request(name, text.encode()).content.decode())


if __name__ == "__main__":
    try:
        main()
    except namely.Error as error:
        sys.exit(str(error))
