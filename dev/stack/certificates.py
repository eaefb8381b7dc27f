"""A private certificate authority, for the control plane and for brokers with TLS."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = dt.timedelta(days=30)
_CLOCK_SKEW = dt.timedelta(hours=1)
LOOPBACK_NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Paths of PEM files: a certificate, its private key (PKCS 8), and both in one file for PEM key stores of Kafka."""

    cert: Path
    key: Path
    bundle: Path


class CertificateAuthority:
    """A certificate authority in a directory. It writes certificates there as `<name>.crt`, `.key` and `.pem`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cert = directory / "ca.crt"
        if (directory / "ca.key").exists():
            key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
            self._name = x509.load_pem_x509_certificate(self.cert.read_bytes()).subject
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self._key = ec.generate_private_key(ec.SECP256R1())
            # Clients that trust two authorities confuse them if their names are equal, so the name is unique.
            unique = f"rackspan-dev-ca-{x509.random_serial_number():x}"[:40]
            self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, unique)])
            certificate = self._sign(self._builder(self._name, self._key.public_key(), authority=True))
            _write(directory, "ca", certificate, self._key)

    def server(self, name: str, hosts: Sequence[str] = LOOPBACK_NAMES) -> Certificate:
        """Issue a certificate for a server with the names `hosts`, also for its calls to its peers."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(subject, key.public_key(), authority=False)
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        return _write(self.directory, name, self._sign(builder), key)

    def client(self, name: str, common_name: str, organizations: Sequence[str] = ()) -> Certificate:
        """Issue a client certificate. In Kubernetes, the common name is the user and organizations are its groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        builder = self._builder(subject, key.public_key(), authority=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        return _write(self.directory, name, self._sign(builder), key)

    def _builder(
        self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey, *, authority: bool
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        # Python 3.13 verifies strictly (RFC 5280): key usage, subject key of authorities, authority key of leaves.
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=not authority,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=authority,
            crl_sign=authority,
            encipher_only=False,
            decipher_only=False,
        )
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(authority_key, critical=False)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self._key, hashes.SHA256())


def write_service_account_key(path: Path) -> Path:
    """Write a new RSA key with which the control plane signs service-account tokens. Return its path."""
    return _write_private(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Certificate:
    files = Certificate(directory / f"{name}.crt", directory / f"{name}.key", directory / f"{name}.pem")
    files.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(files.key, key)
    files.bundle.touch(mode=0o600)
    files.bundle.write_bytes(files.key.read_bytes() + files.cert.read_bytes())
    return files


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path
