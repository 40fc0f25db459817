"""The cipher suites that `ssl.cipher.suites` can name: those of Java and OpenSSL for servers with a certificate.

Names and numbers are those of IANA's registry; OpenSSL has names of its own for the suites of TLS 1.2. The suites with DHE are
not among them, because they need parameters that the server does not have.
"""

from collections.abc import Collection

TLS_1_3 = {
    "TLS_AES_256_GCM_SHA384": 0x1302,
    "TLS_CHACHA20_POLY1305_SHA256": 0x1303,
    "TLS_AES_128_GCM_SHA256": 0x1301,
}
"""They can be named only together, because Python cannot choose some of them."""
TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": 0xC02C,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": 0xC024,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": 0xC028,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": 0xC023,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": 0xC00A,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": 0xC014,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": 0xC013,
    "TLS_RSA_WITH_AES_256_GCM_SHA384": 0x009D,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x009C,
    "TLS_RSA_WITH_AES_256_CBC_SHA256": 0x003D,
    "TLS_RSA_WITH_AES_128_CBC_SHA256": 0x003C,
    "TLS_RSA_WITH_AES_256_CBC_SHA": 0x0035,
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
}


def usable_versions(suites: Collection[str], versions: Collection[str]) -> tuple[str, ...]:
    """The versions of TLS that have one of these suites. No suites: nothing is restricted."""
    has = {"TLSv1.2": TLS_1_2.keys(), "TLSv1.3": TLS_1_3.keys()}
    return tuple(version for version in versions if not suites or has[version] & set(suites))


def why_not(suites: Collection[str], versions: Collection[str]) -> str | None:
    """Why a listener cannot have these suites with these versions, or None."""
    missing = TLS_1_3.keys() - set(suites)
    if "TLSv1.3" in versions and 0 < len(missing) < len(TLS_1_3):
        return f"ssl.cipher.suites: the suites of TLS 1.3 can be named only together: {', '.join(TLS_1_3)}; or none of them"
    if not usable_versions(suites, versions):
        return f"ssl.cipher.suites has no suite of {' or '.join(versions)} (ssl.enabled.protocols)"
    return None
