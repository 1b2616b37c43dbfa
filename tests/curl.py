"""As much of curl as the documentation uses, for machines that have none."""

from __future__ import annotations

import argparse
import sys
import urllib.error
import urllib.request


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("url")
    given = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in given.headers)
    if given.json is not None:
        headers["content-type"] = "application/json"
    method = given.method or ("GET" if given.json is None else "POST")
    body = None if given.json is None else given.json.encode()
    request = urllib.request.Request(given.url, body, headers, method=method)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request) as answer:
            sys.stdout.write(answer.read().decode())
    except urllib.error.HTTPError as error:
        sys.stdout.write(error.read().decode())


if __name__ == "__main__":
    main()
