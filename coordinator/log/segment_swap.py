"""Replaces several segments by one cleaned segment, so that a crash at any point leaves either the old or the new state.

A file system replaces one file atomically, but not several. Therefore the intention is made durable first, as a file name:

    1  00..0100.log.cleaned                   is written and synced
    2  00..0100.00..0900.swap                 renamed: from here on the new segment is valid for offsets 100 to 899
    3  the list of segments (segment_list.py) has the new one in place of the old ones
    4  all old segments from 100 to 899 are removed, except the first
    5  00..0100.log                           renamed over the first

If there are aborted transactions, the list 00..0100.00..0900.txnindex.swap is written and synced before step 2, and renamed
between steps 4 and 5.

The folder is synced after each of the steps 2 to 5. Opening a log discards a swap in step 1 and completes one in steps 2 to
4. (Kafka: `LocalLog.replaceSegments`.) Kafka's `.swap` files name only the first offset. A cleaned segment whose last batches
were dropped does not reveal where the old segments ended, hence the second offset in our names.
"""

from coordinator.log import segment_list
from coordinator.log.aborted import SUFFIX as ABORTED_SUFFIX
from coordinator.log.segment import SUFFIX, aborted_name, remove_files, segment_name
from coordinator.log.segment_list import first_checksum
from coordinator.world.disk import Disk

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def cleaned_name(base_offset: int) -> str:
    """The name of a cleaned segment while it is being written."""
    return segment_name(base_offset) + CLEANED_SUFFIX


def cleaned_list_name(base_offset: int, end_offset: int) -> str:
    """The name of a cleaned segment's list of aborted transactions until it is swapped in."""
    return f"{base_offset:020d}.{end_offset:020d}{ABORTED_SUFFIX}{SWAP_SUFFIX}"


def begin_swap(disk: Disk, folder: str, base_offset: int, end_offset: int) -> None:
    """Step 2: from here on the cleaned segment is the valid one. Raises OSError."""
    swap = f"{folder}/{base_offset:020d}.{end_offset:020d}{SWAP_SUFFIX}"
    disk.rename(f"{folder}/{cleaned_name(base_offset)}", swap)
    disk.sync_folder(folder)


def finish_swap(disk: Disk, folder: str, base_offset: int, end_offset: int) -> None:
    """Steps 3 to 5, continuing wherever an earlier attempt stopped. Raises OSError."""
    swap = f"{folder}/{base_offset:020d}.{end_offset:020d}{SWAP_SUFFIX}"
    file = disk.open(swap)
    segment_list.replace(
        disk, folder, (base_offset, end_offset), segment_list.Entry(base_offset, file.size(), first_checksum(file))
    )
    file.close()
    obsolete = [
        int(name.removesuffix(SUFFIX))
        for name in disk.list(folder)
        if name.endswith(SUFFIX)
        and name.removesuffix(SUFFIX).isdigit()
        and base_offset < int(name.removesuffix(SUFFIX)) < end_offset
    ]
    for obsolete_base in obsolete:
        remove_files(disk, folder, obsolete_base)
    cleaned_list = f"{folder}/{cleaned_list_name(base_offset, end_offset)}"
    lists = disk.exists(cleaned_list)
    if lists:
        disk.rename(cleaned_list, f"{folder}/{aborted_name(base_offset)}")
    if obsolete or lists:
        disk.sync_folder(folder)
    disk.rename(swap, f"{folder}/{segment_name(base_offset)}")
    disk.sync_folder(folder)


def finish_swaps(disk: Disk, folder: str) -> None:
    """Called first when a log is opened: completes swaps that reached step 2, removes the others. Raises OSError."""
    names = disk.list(folder)
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{folder}/{name}")
        elif name.endswith(ABORTED_SUFFIX + SWAP_SUFFIX):
            if name.removesuffix(ABORTED_SUFFIX + SWAP_SUFFIX) + SWAP_SUFFIX not in names:
                disk.remove(f"{folder}/{name}")
        elif name.endswith(SWAP_SUFFIX):
            parts = name.removesuffix(SWAP_SUFFIX).split(".")
            if len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit():
                finish_swap(disk, folder, int(parts[0]), int(parts[1]))
