"""Messages to receivers by the Standard Webhooks specification: secrets, signatures, tries, addresses."""
