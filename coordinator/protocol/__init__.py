"""Bytes to messages and back: frames, headers, and every message in every version.

`codec.py` is the door. Behind it: `schema.py` reads a definition (protocol_schemas/*.json), `declare.py` says what one
version of it looks like on the wire as a `construct` declaration, `compile.py` turns that into flat functions, and
`messages.py` holds the classes that they fill. `frame.py` cuts a byte stream, `header.py` opens a request,
`subscription.py` reads what consumers put into JoinGroup. Nothing here does input or output.
"""
