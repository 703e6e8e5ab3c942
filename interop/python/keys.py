"""Signers, certificates and checks of every signature type that python-ndn has."""
import os
from datetime import datetime, timedelta, timezone
from hashlib import sha256

from Cryptodome.PublicKey import ECC, RSA
from ndn import security
from ndn.app_support.security_v2 import SafeBag, derive_cert, parse_certificate, self_sign
from ndn.encoding import Component, Name, SignatureType, parse_and_check_tl, parse_data
from ndn.encoding.tlv_var import get_tl_num_size, write_tl_num
from ndn.security.validator.known_key_validator import verify_ecdsa, verify_ed25519, verify_hmac, verify_rsa
from ndn.types import ValidResult
from ndn.utils import gen_nonce_64, timestamp

from session import read_packet

KINDS = ('digest', 'hmac', 'rsa', 'ecdsa', 'ed25519', 'null')
SAFE_BAG = 0x80


class Identity:
    """A key of one kind and, for a key pair, its certificate: self-signed, or the one that was loaded with the key."""

    def __init__(self, identity, kind, hmac_key=None, key_path=None, certificate_path=None):
        self.kind = kind
        self.certificate_name = None
        self.certificate = None
        self.key_name = Name.from_str(identity or '/') + [Component.from_str('KEY'), Component.from_bytes(os.urandom(8))]
        if kind in ('digest', 'null'):
            self.signer = {'digest': security.DigestSha256Signer, 'null': security.NullSigner}[kind]()
        elif kind == 'hmac':
            self.signer = security.HmacSha256Signer(self.key_name, hmac_key)
        elif key_path:
            self.private_key = load_private_key(kind, key_path)
            self.certificate = read_packet(certificate_path)
            self.certificate_name = parse_certificate(self.certificate).name
            self.signer = signer_for(kind, self.certificate_name, self.private_key)
        else:
            self._key_pair(generate(kind))

    def _key_pair(self, private_key):
        self.private_key = private_key
        self.certificate_name, self.certificate = self_sign(
            self.key_name, spki(private_key), signer_for(self.kind, self.key_name, private_key))
        self.signer = signer_for(self.kind, self.certificate_name, private_key)

    def issue(self, request):
        """A certificate of this identity for the key in another certificate."""
        subject = parse_certificate(request)
        start = datetime.now(timezone.utc) - timedelta(minutes=1)
        _, wire = derive_cert(subject.name[:-2], 'python', subject.content, self.signer, start, 3600)
        return wire

    def safe_bag(self, passphrase):
        """The key pair as a SafeBag."""
        bag = SafeBag()
        bag.certificate_v2 = bytes(parse_and_check_tl(self.certificate, 6))
        options = {'passphrase': passphrase, 'protection': 'PBKDF2WithHMAC-SHA1AndAES256-CBC'}
        if self.kind == 'rsa':
            bag.encrypted_key_bag = self.private_key.export_key('DER', pkcs=8, **options)
        else:
            bag.encrypted_key_bag = self.private_key.export_key(format='DER', use_pkcs8=True, **options)
        value = bag.encode()
        head = bytearray(get_tl_num_size(SAFE_BAG) + get_tl_num_size(len(value)))
        write_tl_num(len(value), head, write_tl_num(SAFE_BAG, head))
        return bytes(head) + bytes(value)


def open_safe_bag(wire, passphrase):
    """`(certificate's name, private key)` of a SafeBag; raises when key and certificate do not belong together."""
    bag = SafeBag.parse(parse_and_check_tl(wire, SAFE_BAG))
    certificate = parse_certificate(reframe(bag.certificate_v2))
    encrypted = bytes(bag.encrypted_key_bag)
    importer = RSA if b'\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01' in bytes(certificate.content) else ECC
    private_key = importer.import_key(encrypted, passphrase)
    if spki(private_key) != bytes(certificate.content):
        raise ValueError('the SafeBag holds the key of another certificate')
    return certificate.name, private_key


class CommandSigner:
    """Signs command Interests with a key that the router knows: the library's signer, plus time and nonce."""

    def __init__(self, signer):
        self.signer = signer
        self.last_time = 0

    def write_signature_info(self, signature_info):
        self.signer.write_signature_info(signature_info)
        self.last_time = max(self.last_time + 1, timestamp())
        signature_info.signature_time = self.last_time
        signature_info.signature_nonce = gen_nonce_64()

    def get_signature_value_size(self):
        return self.signer.get_signature_value_size()

    def write_signature_value(self, wire, contents):
        return self.signer.write_signature_value(wire, contents)


def load_private_key(kind, path):
    """A private key from a PKCS#8 file."""
    with open(path, 'rb') as file:
        der = file.read()
    return RSA.import_key(der) if kind == 'rsa' else ECC.import_key(der)


def pkcs8(private_key):
    """A private key as DER."""
    if isinstance(private_key, RSA.RsaKey):
        return private_key.export_key('DER', pkcs=8)
    return private_key.export_key(format='DER', use_pkcs8=True)


def reframe(value):
    """A Data's VALUE as a whole Data."""
    head = bytearray(1 + get_tl_num_size(len(value)))
    write_tl_num(len(value), head, write_tl_num(6, head))
    return bytes(head) + bytes(value)


def generate(kind):
    """A new private key."""
    if kind == 'rsa':
        return RSA.generate(2048)
    return ECC.generate(curve='P-256' if kind == 'ecdsa' else 'Ed25519')


def signer_for(kind, locator, private_key):
    """The library's signer for a private key."""
    signers = {'rsa': security.Sha256WithRsaSigner, 'ecdsa': security.Sha256WithEcdsaSigner,
               'ed25519': security.Ed25519Signer}
    return signers[kind](locator, pkcs8(private_key))


def spki(private_key):
    """The public half as a DER SubjectPublicKeyInfo."""
    public = private_key.public_key()
    if isinstance(public, RSA.RsaKey):
        return public.export_key('DER')
    return public.export_key(format='DER')


class Checker:
    """Checks packets against the given keys, and records the types and key locators of signatures.

    If a certificate is missing, `fetch` requests it by its name. It is accepted if a known key has signed it.
    """

    def __init__(self, certificates=(), hmac_key=None, accept_unsigned=False):
        self.keys = {}
        for path in certificates:
            self.learn(read_packet(path))
        self.hmac_key = hmac_key
        self.accept_unsigned = accept_unsigned
        self.fetch = None
        self.types = {}
        self.locators = set()

    def learn(self, wire):
        certificate = parse_certificate(wire)
        self.keys[Name.to_bytes(certificate.name[:-2])] = bytes(certificate.content)

    async def __call__(self, _name, signature, _context):
        locator = signature.signature_info.key_locator
        if self.fetch and locator and locator.name and self.key_of(locator.name) is None:
            wire = await self.fetch(locator.name)
            if self.check_packet(wire):
                self.learn(wire)
        return ValidResult.PASS if self.check(signature) else ValidResult.FAIL

    def check(self, signature):
        """Returns true if the signature is valid. A null signature is valid only if unsigned packets are accepted."""
        info = signature.signature_info
        kind = info.signature_type
        self.types[kind] = self.types.get(kind, 0) + 1
        locator = info.key_locator.name if info.key_locator else None
        if locator:
            self.locators.add(Name.to_str(locator))
        if kind == SignatureType.NULL:
            return self.accept_unsigned
        if kind == SignatureType.DIGEST_SHA256:
            digest = sha256(b''.join(bytes(part) for part in signature.signature_covered_part)).digest()
            return digest == bytes(signature.signature_value_buf)
        if kind == SignatureType.HMAC_WITH_SHA256:
            return self.hmac_key is not None and verify_hmac(self.hmac_key, signature)
        key = self.key_of(locator)
        return key is not None and verify_with(kind, key, signature)

    def key_of(self, locator):
        """The key that a locator (key name or certificate name) stands for, if it is known."""
        if not locator:
            return None
        for length in (len(locator), len(locator) - 2):
            key = self.keys.get(Name.to_bytes(locator[:length]))
            if key is not None:
                return key
        return None

    def check_packet(self, wire):
        """Checks one encoded Data."""
        _, _, _, signature = parse_data(wire)
        return self.check(signature)

    def report(self):
        """The recorded signatures, for the harness."""
        return {'signature_types': {str(kind): count for kind, count in self.types.items()},
                'key_locators': sorted(self.locators)}


def verify_with(kind, key, signature):
    """Checks an asymmetric signature with the library's own function for its type."""
    if kind == SignatureType.SHA256_WITH_RSA:
        return verify_rsa(RSA.import_key(key), signature)
    checks = {SignatureType.SHA256_WITH_ECDSA: verify_ecdsa, SignatureType.ED25519: verify_ed25519}
    return checks[kind](ECC.import_key(key), signature)
