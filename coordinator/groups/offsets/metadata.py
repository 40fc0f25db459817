"""The limit on the text that a commit may carry per partition (`OffsetMetadataManager.isMetadataInvalid` in Kafka)."""


def is_too_large(metadata: str, metadata_max: int) -> bool:
    """Whether the text has more than `metadata_max` UTF-16 code units, which Java counts although the setting says bytes."""
    length = len(metadata)
    if 2 * length <= metadata_max:
        return False
    return length > metadata_max or length + sum(letter > "\uffff" for letter in metadata) > metadata_max
