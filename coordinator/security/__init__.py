"""Who a client is: TLS and its certificates, SASL and its mechanisms, principals."""
