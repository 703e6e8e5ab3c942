"""Answers the requests for names below PREFIX in upper case: python3 service.py /lab/shout"""

import sys

import namely


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: service.py PREFIX")
    with namely.Producer(sys.argv[1]) as producer:
        for request in producer:
            try:
                if request.parameters is None:
                    request.deny()
                else:
                    request.reply(request.parameters.upper())
            except namely.Error as error:
                # An answer that fails ends no service: the next request may be another client's.
                print(error, file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except namely.Error as error:
        sys.exit(str(error))
