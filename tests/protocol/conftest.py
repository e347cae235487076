"""In these tests a codec that contradicts the description of the bytes fails the test, whatever it expects."""

from protocol import codec

codec.is_strict = True
