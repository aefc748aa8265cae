"""Addresses of channels as the store keeps them: encrypted with the hub's secret, which lies in another file.

So a copy of the store, a backup say, holds no token of a chat or a mail account.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken

PURPOSE = "alert channels v1"


class Unreadable(Exception):
    """An address was encrypted with another secret than the hub has now."""


class Seal:
    """Encrypts and decrypts.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def close(self, text: str) -> bytes:
        """For the store."""
        return self._fernet.encrypt(text.encode())

    def open(self, sealed: bytes) -> str:
        """From the store.

        Raises:
            Unreadable: it was sealed with another key.
        """
        try:
            return self._fernet.decrypt(sealed).decode()
        except InvalidToken:
            raise Unreadable("the address cannot be read with this hub's secret; give it anew") from None
