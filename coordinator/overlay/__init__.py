"""A server in front of a real Kafka cluster: it answers the APIs of groups and offsets, and forwards all others.

offer         which APIs are answered here, which are forwarded, and in which versions
links         connections to brokers, with TLS and SASL
dispatch      the dispatcher of a listener: to the server's own, or to a broker
upstream      the connection to a broker that belongs to one client connection
rewrite       responses that carry addresses, with the listeners' in their place
brokers       the brokers of the cluster, a listener for each
topics        the registry follows the topics of the cluster
markers       the ends of transactions, read from the cluster's `__consumer_offsets`
verification  whether a group's partition is in a transaction, as the cluster says
overlay       the parts together
"""
