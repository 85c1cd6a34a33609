"""Signatures as https://www.standardwebhooks.com describes them, and tokens for callbacks. Times come in as seconds.

The signed text is `id.timestamp.body`. A secret is `whsec_` and a key in base64.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rowcall.domain.errors import InvalidOption, PushRefused

SECRET_PREFIX = "whsec_"
LEAST_KEY_BYTES, MOST_KEY_BYTES = 24, 64
LONGEST_HEADER = 4096
LONGEST_TIMESTAMP = 12
SIGNATURE_LENGTH = 44
"""Of 32 bytes in base64."""
DEFAULT_TOLERANCE_SECONDS = 300.0
ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"

_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,256}")
_CALLBACK = b"rowcall callback "


def checked_secrets(value: object) -> tuple[str, ...]:
    """Return one secret or several as a tuple, or raise `InvalidOption`, which never shows them."""
    secrets = (value,) if isinstance(value, str) else value
    if not isinstance(secrets, Iterable) or not (checked := tuple(secrets)):
        raise InvalidOption("secrets", "must be a list of at least one secret such as 'whsec_…'")
    for secret in checked:
        if not isinstance(secret, str) or not secret.startswith(SECRET_PREFIX):
            raise InvalidOption("secrets", f"must begin with {SECRET_PREFIX!r}, and one of them does not")
        try:
            size = len(base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True))
        except (binascii.Error, ValueError):
            raise InvalidOption("secrets", f"must be {SECRET_PREFIX!r} and base64, and one of them is not") from None
        if not LEAST_KEY_BYTES <= size <= MOST_KEY_BYTES:
            problem = f"must have {LEAST_KEY_BYTES} to {MOST_KEY_BYTES} bytes after {SECRET_PREFIX!r}, got {size}"
            raise InvalidOption("secrets", problem)
    return checked


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message. Each secret signs, so that a receiver may have either during a rotation."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = [f"v1,{base64.b64encode(_mac(secret, signed)).decode()}" for secret in secrets]
    return {ID_HEADER: message_id, TIMESTAMP_HEADER: str(timestamp), SIGNATURE_HEADER: " ".join(signatures)}


def verify_message(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes | bytearray, now: float, tolerance_seconds: float
) -> str:
    """Return the id of a message that one of the secrets has signed within the tolerance, or raise `PushRefused`."""
    signed, given = checked_headers(headers, now, tolerance_seconds)
    wanted = [base64.b64encode(_mac(secret, signed.prefix, body)) for secret in secrets]
    if not _any_equal(given, wanted):
        raise PushRefused("none of the signatures was made with one of the secrets")
    return signed.message_id


class SignedPart(NamedTuple):
    """What a message's headers say that is signed together with its body."""

    message_id: str
    prefix: bytes


def checked_headers(headers: Mapping[str, str], now: float, tolerance_seconds: float) -> tuple[SignedPart, list[bytes]]:
    """Return what is signed and the signatures, or raise `PushRefused`. A body is read only if these are in order."""
    values = {name.lower(): value for name, value in headers.items()}
    for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
        if not 0 < len(values.get(name, "")) <= LONGEST_HEADER:
            raise PushRefused(f"the header {name} is missing or too long")
    message_id, timestamp, signatures = values[ID_HEADER], values[TIMESTAMP_HEADER], values[SIGNATURE_HEADER]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= LONGEST_TIMESTAMP):
        raise PushRefused(f"the header {TIMESTAMP_HEADER} is not a number of seconds")
    if abs(now - int(timestamp)) > tolerance_seconds:
        raise PushRefused(f"the header {TIMESTAMP_HEADER} differs by more than {tolerance_seconds:g} s from this clock")
    if not _MESSAGE_ID.fullmatch(message_id):
        raise PushRefused(f"the header {ID_HEADER} is not an id: printable ASCII characters without a dot")
    encoded = [one.removeprefix("v1,").encode() for one in signatures.split(" ") if one.startswith("v1,")]
    if not any(len(one) == SIGNATURE_LENGTH for one in encoded):
        raise PushRefused(f"none of the signatures in the header {SIGNATURE_HEADER} has the form v1,…")
    return SignedPart(message_id, f"{message_id}.{timestamp}.".encode()), encoded


def callback_token(secrets: Sequence[str], job_id: int, lease: int, holder: int) -> str:
    """Return what a target needs to settle the attempt with this lease and this holder."""
    return f"{job_id}.{lease}.{holder}.{_callback_mac(secrets[0], job_id, lease, holder)}"


def attempt_of_token(secrets: Sequence[str], token: object) -> tuple[int, int, int]:
    """Return the job's id, the lease and the holder of the attempt that a token is for, or raise `PushRefused`."""
    *parts, mac = token.split(".", 3) if isinstance(token, str) else [""]
    if len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        job_id, lease, holder = map(int, parts)
        wanted = [_callback_mac(secret, job_id, lease, holder).encode() for secret in secrets]
        if _any_equal([mac.encode()], wanted):
            return job_id, lease, holder
    raise PushRefused("the token was not made with one of the secrets")


def _callback_mac(secret: str, *attempt: int) -> str:
    mac = _mac(secret, _CALLBACK + ".".join(map(str, attempt)).encode())
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _mac(secret: str, *parts: bytes | bytearray) -> bytes:
    mac = hmac.new(base64.b64decode(secret.removeprefix(SECRET_PREFIX)), digestmod=hashlib.sha256)
    for part in parts:  # one after the other: a copy of both would double the memory of a large body
        mac.update(part)
    return mac.digest()


def _any_equal(given: Sequence[bytes], wanted: Sequence[bytes]) -> bool:
    return any(hmac.compare_digest(one, other) for one in given for other in wanted)
