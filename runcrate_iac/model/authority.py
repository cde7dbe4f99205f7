"""Certificates of authorities: checked, or refused with the reason."""

from __future__ import annotations

import re
import ssl

from pydantic import AfterValidator

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----")


def normalise(text: str) -> str:
    """The PEM text of one or several certificates, without what stands between them.

    Raises :class:`ValueError` where it is none, or one that is not an authority's. The text itself never shows in the
    message, since it may be a private key.
    """
    if "PRIVATE KEY" in text:
        msg = "there is a private key in it; give the certificate alone"
        raise ValueError(msg)
    found = [f"{pem.strip()}\n".replace("\r\n", "\n") for pem in _CERTIFICATE.findall(text)]
    if not found:
        msg = "no certificate in PEM form: expected -----BEGIN CERTIFICATE----- and what follows"
        raise ValueError(msg)
    for pem in found:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=pem)
        except ssl.SSLError:
            msg = "the certificate is damaged: its content is not one in X.509"
            raise ValueError(msg) from None
        if not context.cert_store_stats()["x509_ca"]:
            msg = "the certificate is not an authority's (CA:TRUE), so that nothing could be trusted by it"
            raise ValueError(msg)
    return "".join(found)


certificate = AfterValidator(normalise)


def each(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Every certificate of these texts once, by itself."""
    return tuple(dict.fromkeys(pem + "\n" for text in texts for pem in _CERTIFICATE.findall(text)))
