"""Spark's door to the log of a group coordinator, ours or Kafka's: `spark.read.format("coordinator_log")`.

columns  the views' columns
"""
