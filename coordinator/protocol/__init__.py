"""Bytes to messages and back: frames, headers, and every message in every version.

`codec.py` is the entry point. Behind it, `schema.py` reads a definition (protocol_schemas/*.json), `declare.py` turns one
version of it into a `construct` declaration of the bytes on the wire, `compile.py` turns that into flat functions, and
`messages.py` holds the classes that they fill. `generated.py` and `class_specs.py` make functions and classes of what an
earlier process has generated, if it is in the code cache. `frame.py` splits a byte stream, `header.py` reads a request's
header, `subscription.py` reads what consumers put into JoinGroup and SyncGroup. Apart from definitions and that cache, nothing
here does input or output.
"""
