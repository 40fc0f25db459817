"""How long the text may be that a commit carries per partition."""


def is_too_large(metadata: str, metadata_max: int) -> bool:
    """Java counts UTF-16 code units whatever the setting is called: a letter outside the basic plane is two."""
    length = len(metadata)
    if 2 * length <= metadata_max:
        return False
    return length > metadata_max or length + sum(letter > "\uffff" for letter in metadata) > metadata_max
