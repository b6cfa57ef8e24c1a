"""Messages to receivers by the Standard Webhooks specification: secrets, signatures, attempts, addresses."""
