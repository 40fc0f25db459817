#!/bin/sh
# Puts the records and offsets of this server into the data folder of a Kafka broker. Both must be stopped.
#
#   sh move_to_kafka.sh DATA_DIR KAFKA_LOG_DIR
#
# The broker must have made the same partitions before: the topics, and __consumer_offsets with as many partitions as here.
set -eu
ours=$1 theirs=$2
for journal in "$ours"/coordinator.journal*; do
    [ ! -e "$journal" ] || { echo "$ours has a journal; run: coordinator log settle $ours" >&2; exit 1; }
done
for folder in "$ours"/*-*/; do
    name=$(basename "$folder")
    case $name in
        __cluster_metadata-* | __coordinator_events-* | __transaction_state-*) continue ;;
    esac
    [ -n "$(find "$folder" -name '*.log' -size +0)" ] || continue
    [ -d "$theirs/$name" ] || { echo "$theirs has no partition $name; create it first" >&2; exit 1; }
    find "$theirs/$name" -type f ! -name partition.metadata -delete
    cp "$folder"*.log "$theirs/$name/"
    for list in "$folder"*.txnindex; do
        [ ! -e "$list" ] || cp "$list" "$theirs/$name/"
    done
done
# Without these, the broker reads the files instead of trusting what it knew of the old ones.
rm -f "$theirs/recovery-point-offset-checkpoint" "$theirs/replication-offset-checkpoint" "$theirs/.kafka_cleanshutdown"
