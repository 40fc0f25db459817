"""One target under Atheris: `python -m tests.fuzz.instrumented PROGRAM TARGET [libFuzzer's options]`.

PROGRAM is what libFuzzer starts to run another process of the same kind.

Coverage is measured in the server's own code, in the decoders that it generates, and in the libraries for SASL.
"""

import sys

import atheris

with atheris.instrument_imports(include=["coordinator", "jwt", "scramp"]):
    import scramp  # noqa: F401 - the server imports it later

    from coordinator.protocol import codec
    from tests.fuzz.targets import TARGETS


def _instrument_decoders() -> None:
    """Decoders are made on first use, from code that was not imported."""
    link = codec.link

    def linked(compiled, name, classes):
        return atheris.instrument_func(link(compiled, name, classes))

    codec.link = linked


def main() -> None:
    _instrument_decoders()
    program, name, *options = sys.argv[1:]
    atheris.Setup([program, *options], TARGETS[name][0])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
