#!/bin/sh
exec "${PYTHON:-/usr/bin/python3}" "$(dirname "$0")/lib/grad.py" "$@"
